//! Fonts: a line of text, or the font's first characters if it lacks the letters of that line.

use super::{Ask, DecodedFile, damaged};
use crate::input::Input;
use crate::paint::Picture;
use crate::preview::{Kind, Reason};
use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};

/// A font for all of China's characters has less.
const MAX_FONT: u64 = 64 << 20;
const SAMPLE: &str = "Hamburgefonstiv 123";
/// Of a font without those letters, so many of its own.
const OWN: usize = 12;

/// Draws a line of text.
pub fn read(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    if input.len() > MAX_FONT {
        let words = format!("the font has more than {} MiB", MAX_FONT >> 20);
        return Err(Reason::new(Kind::TooLarge, words));
    }
    let bytes = input.start(MAX_FONT).map_err(damaged)?;
    let font = FontRef::try_from_slice_and_index(&bytes, 0).map_err(damaged)?;
    let mut found = DecodedFile::default();
    let kind = match bytes.get(..4) {
        Some(b"OTTO") => "OpenType font",
        Some(b"ttcf") => "collection of fonts",
        _ => "TrueType font",
    };
    found.fact("format", kind);
    found.fact("glyphs", font.glyph_count());
    if let Some(edge) = ask.edge {
        found.picture = Some(draw(&font, &sample(&font), edge.clamp(16, 1024)));
    }
    Ok(found)
}

fn sample(font: &FontRef<'_>) -> String {
    let has_all = SAMPLE.chars().all(|c| c == ' ' || font.glyph_id(c).0 != 0);
    if has_all {
        return SAMPLE.to_owned();
    }
    let own = font
        .codepoint_ids()
        .map(|(_, c)| c)
        .filter(|c| !c.is_control() && !c.is_whitespace());
    let mut own: Vec<char> = own.take(10_000).collect();
    own.sort_unstable();
    own.dedup();
    own.into_iter().take(OWN).collect()
}

/// Draws a line in black on white, so that it can be read on every page.
fn draw(font: &FontRef<'_>, text: &str, width: u32) -> Picture {
    let height = (width / 4).max(8);
    let mut grey = vec![255u8; width as usize * height as usize];
    let margin = width as f32 / 32.0;
    let room = width as f32 - 2.0 * margin;
    let first = lay(font, text, height as f32 * 0.6);
    let line = if first.1 > room {
        lay(font, text, height as f32 * 0.6 * room / first.1).0
    } else {
        first.0
    };
    for mut glyph in line {
        glyph.position.x += margin;
        glyph.position.y = height as f32 * 0.65;
        let Some(outline) = font.outline_glyph(glyph) else {
            continue;
        };
        let bounds = outline.px_bounds();
        // A damaged font has letters of any size.
        if bounds.width() > width as f32 || bounds.height() > 2.0 * height as f32 {
            continue;
        }
        outline.draw(|x, y, cover| {
            let at = (
                f64::from(bounds.min.x) + f64::from(x),
                f64::from(bounds.min.y) + f64::from(y),
            );
            let inside =
                (0.0..f64::from(width)).contains(&at.0) && (0.0..f64::from(height)).contains(&at.1);
            if inside {
                let place = &mut grey[at.1 as usize * width as usize + at.0 as usize];
                *place = place.saturating_sub((cover.clamp(0.0, 1.0) * 255.0) as u8);
            }
        });
    }
    Picture {
        width,
        height,
        rgba: grey.into_iter().flat_map(|v| [v, v, v, 255]).collect(),
    }
}

/// Returns the letters of a line and its width.
fn lay(font: &FontRef<'_>, text: &str, scale: f32) -> (Vec<Glyph>, f32) {
    let scaled = font.as_scaled(PxScale::from(scale));
    let (mut at, mut out) = (0.0, Vec::new());
    for c in text.chars() {
        let id = scaled.glyph_id(c);
        out.push(id.with_scale_and_position(PxScale::from(scale), point(at, 0.0)));
        let advance = scaled.h_advance(id);
        at += if advance.is_finite() {
            advance.clamp(0.0, scale * 4.0)
        } else {
            0.0
        };
    }
    (out, at)
}
