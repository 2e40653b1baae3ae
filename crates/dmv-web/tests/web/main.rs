//! The pages over real connections: what each shows, what each refuses, and what forms change.

mod browser;
mod changes;
mod dav;
mod driver;
mod gone;
mod hostile;
mod long;
mod pages;
mod previews;
mod served;
mod streams;
mod transfers;
