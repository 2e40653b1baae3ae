//! Pictures made smaller while they come in, turned, and encoded.

use crate::preview::{Form, Kind, Limits, Preview, PreviewKind, Reason};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::metadata::Orientation;
use image::{ExtendedColorType, ImageEncoder};

/// A picture: RGBA, 8 bits each, sRGB, not premultiplied, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub rgba: Vec<u8>,
}

/// A size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

impl Size {
    /// Returns the length of the longer edge.
    pub fn longer(self) -> u32 {
        self.width.max(self.height)
    }
}

impl From<(u32, u32)> for Size {
    fn from((width, height): (u32, u32)) -> Size {
        Size { width, height }
    }
}

/// Takes the rows of a picture and keeps a smaller one: each new pixel is the mean of the area that it stands for. The
/// large picture never lies in memory.
pub struct Canvas {
    from: Size,
    to: Size,
    /// The row that comes next.
    next: u32,
    /// Sums of one row: of colours multiplied with alpha, and of alpha.
    row: Vec<[u64; 4]>,
    /// Sums of the rows of one new row, and of the one after it.
    sums: [Vec<[u64; 4]>; 2],
    /// Plain sums of rows without transparency that belong to one new row completely, and how many they are.
    plain: Vec<u32>,
    plain_rows: u64,
    rgba: Vec<u8>,
}

impl Canvas {
    /// A canvas for a picture of the size `from`, that keeps one whose longer edge is at most `edge`.
    pub fn new(from: Size, edge: u32, limits: &Limits) -> Result<Self, Reason> {
        Self::of_blocks(from, from, edge, limits)
    }

    /// The same for a picture of the size `original` that comes as the means of `from` blocks.
    pub fn of_blocks(
        original: Size,
        from: Size,
        edge: u32,
        limits: &Limits,
    ) -> Result<Self, Reason> {
        check_size(original, limits)?;
        let to = fit(original, edge);
        if to.width > from.width || to.height > from.height {
            return Err(Reason::new(
                Kind::Damaged,
                "the picture is smaller than it says",
            ));
        }
        if u64::from(to.width) * u64::from(to.height) * 4 > limits.output_bytes {
            let words = format!(
                "a picture of {} x {} pixels is too large to send",
                to.width, to.height
            );
            return Err(Reason::new(Kind::TooLarge, words));
        }
        let columns = to.width as usize;
        Ok(Self {
            from,
            to,
            next: 0,
            row: vec![[0; 4]; columns],
            sums: [vec![[0; 4]; columns], vec![[0; 4]; columns]],
            plain: Vec::new(),
            plain_rows: 0,
            rgba: Vec::new(),
        })
    }

    /// Adds the next row: pixels of RGBA.
    pub fn row(&mut self, row: &[u8]) {
        if self.next >= self.from.height || row.len() != self.from.width as usize * 4 {
            return;
        }
        if self.from == self.to {
            self.next += 1;
            return self.rgba.extend_from_slice(row);
        }
        self.add_columns(row);
        self.add_row();
        self.next += 1;
    }

    /// Adds the next row of a picture without transparency: pixels of RGB. Rows are summed from top to bottom first, which
    /// processors do fast, and from left to right only once for each new row.
    pub fn opaque_row(&mut self, row: &[u8]) {
        if self.next >= self.from.height || row.len() != self.from.width as usize * 3 {
            return;
        }
        let (old, new) = (u64::from(self.from.height), u64::from(self.to.height));
        let (from, to) = (u64::from(self.next) * new, (u64::from(self.next) + 1) * new);
        let edge = (from / old + 1) * old;
        if to > edge || self.from == self.to {
            let pixels = row.as_chunks::<3>().0.iter();
            let rgba: Vec<u8> = pixels.flat_map(|[r, g, b]| [*r, *g, *b, 255]).collect();
            return self.row(&rgba);
        }
        self.plain.resize(row.len(), 0);
        for (sum, value) in self.plain.iter_mut().zip(row) {
            *sum += u32::from(*value);
        }
        self.plain_rows += 1;
        self.next += 1;
        if to == edge {
            self.finish_row();
        }
    }

    /// Adds the plain sums to the new row that they belong to.
    fn add_plain(&mut self) {
        if self.plain_rows == 0 {
            return;
        }
        let (old, new) = (u64::from(self.from.width), u64::from(self.to.width));
        let weight = 255 * u64::from(self.to.height);
        let pixels = self.plain.as_chunks::<3>().0;
        for (column, sum) in (0..).zip(&mut self.sums[0]) {
            let (from, to) = (column * old, (column + 1) * old);
            let (first, last) = ((from / new) as usize, (to.div_ceil(new)) as usize);
            for (at, pixel) in (first..).zip(&pixels[first..last]) {
                let at = at as u64 * new;
                let share = (at + new).min(to) - at.max(from);
                for (sum, value) in sum.iter_mut().zip(pixel) {
                    *sum += u64::from(*value) * share * weight;
                }
            }
            sum[3] += self.plain_rows * old * weight;
        }
        self.plain.fill(0);
        self.plain_rows = 0;
    }

    /// Sums the pixels of each new column. A column of the old picture is `to` units wide and one of the new picture
    /// `from` units, so that all shares are whole numbers.
    fn add_columns(&mut self, row: &[u8]) {
        let (old, new) = (u64::from(self.from.width), u64::from(self.to.width));
        let opaque = row.as_chunks::<4>().0.iter().all(|pixel| pixel[3] == 255);
        let pixels = row.as_chunks::<4>().0;
        for (column, sum) in (0..).zip(&mut self.row) {
            let (from, to) = (column * old, (column + 1) * old);
            let (first, last) = ((from / new) as usize, (to.div_ceil(new)) as usize);
            let share = |at: usize| {
                let at = at as u64 * new;
                (at + new).min(to) - at.max(from)
            };
            let inner = &pixels[(first + 1).min(last)..(last - 1).max((first + 1).min(last))];
            *sum = if opaque {
                sum_opaque(inner)
            } else {
                sum_all(inner)
            };
            for value in sum.iter_mut() {
                *value *= new;
            }
            add(sum, pixels[first], share(first));
            if last - 1 > first {
                add(sum, pixels[last - 1], share(last - 1));
            }
        }
    }

    /// Adds the sums of a row to the new rows that it belongs to, and finishes a new row that is complete.
    fn add_row(&mut self) {
        let (old, new) = (u64::from(self.from.height), u64::from(self.to.height));
        let (from, to) = (u64::from(self.next) * new, (u64::from(self.next) + 1) * new);
        let edge = (from / old + 1) * old;
        let shares = [edge.min(to) - from, to.saturating_sub(edge)];
        for (sums, share) in self.sums.iter_mut().zip(shares) {
            if share > 0 {
                for (sum, part) in sums.iter_mut().zip(&self.row) {
                    for (sum, part) in sum.iter_mut().zip(part) {
                        *sum += part * share;
                    }
                }
            }
        }
        if to >= edge {
            self.finish_row();
        }
    }

    fn finish_row(&mut self) {
        self.add_plain();
        let area = u64::from(self.from.width) * u64::from(self.from.height);
        for [r, g, b, a] in &self.sums[0] {
            let colour = |sum: &u64| (sum + a / 2).checked_div(*a).unwrap_or(0) as u8;
            let alpha = ((a + area / 2) / area) as u8;
            self.rgba
                .extend_from_slice(&[colour(r), colour(g), colour(b), alpha]);
        }
        self.sums.swap(0, 1);
        self.sums[1].fill([0; 4]);
    }

    /// Returns the picture. Rows that never came are transparent.
    pub fn finish(mut self) -> Picture {
        let Size { width, height } = self.to;
        self.rgba.resize(width as usize * height as usize * 4, 0);
        Picture {
            width,
            height,
            rgba: self.rgba,
        }
    }
}

/// Sums pixels that are all opaque. The plain sum is what processors do fast.
fn sum_opaque(pixels: &[[u8; 4]]) -> [u64; 4] {
    let mut total = [0u32; 4];
    for pixel in pixels {
        for (total, part) in total.iter_mut().zip(pixel) {
            *total += u32::from(*part);
        }
    }
    let [r, g, b, a] = total.map(u64::from);
    [r * 255, g * 255, b * 255, a]
}

fn sum_all(pixels: &[[u8; 4]]) -> [u64; 4] {
    let mut total = [0; 4];
    pixels.iter().for_each(|pixel| add(&mut total, *pixel, 1));
    total
}

/// Adds a pixel, its colours multiplied with its alpha.
fn add(sum: &mut [u64; 4], pixel: [u8; 4], share: u64) {
    let [r, g, b, a] = pixel.map(u64::from);
    for (sum, part) in sum.iter_mut().zip([r * a, g * a, b * a, a]) {
        *sum += part * share;
    }
}

/// Returns the size of a picture whose longer edge is at most `edge`, with the same proportions.
pub fn fit(size: Size, edge: u32) -> Size {
    let longer = size.longer();
    if longer <= edge {
        return size;
    }
    let scale = |n: u32| {
        let scaled = u64::from(n) * u64::from(edge) + u64::from(longer) / 2;
        ((scaled / u64::from(longer)) as u32).max(1)
    };
    Size {
        width: scale(size.width),
        height: scale(size.height),
    }
}

/// Refuses pictures that have no pixels or too many.
pub fn check_size(size: Size, limits: &Limits) -> Result<(), Reason> {
    let Size { width, height } = size;
    if width == 0 || height == 0 {
        return Err(Reason::new(Kind::Damaged, "the picture has no pixels"));
    }
    if u64::from(width) * u64::from(height) > limits.pixels {
        let words = format!(
            "the picture has {width} x {height} pixels; previews are made up to {} million",
            limits.pixels / 1_000_000
        );
        return Err(Reason::new(Kind::TooLarge, words));
    }
    Ok(())
}

impl Picture {
    /// Returns the picture as its orientation says that it is seen.
    pub fn turned(self, how: Orientation) -> Self {
        if how == Orientation::NoTransforms {
            return self;
        }
        let Some(buffer) = image::RgbaImage::from_raw(self.width, self.height, self.rgba) else {
            return Self {
                width: 0,
                height: 0,
                rgba: Vec::new(),
            };
        };
        let mut picture = image::DynamicImage::ImageRgba8(buffer);
        picture.apply_orientation(how);
        let buffer = picture.into_rgba8();
        Self {
            width: buffer.width(),
            height: buffer.height(),
            rgba: buffer.into_raw(),
        }
    }

    /// Returns the preview that is wanted, without facts.
    pub fn encode(self, wanted: PreviewKind) -> Result<Preview, Reason> {
        let (form, bytes) = match wanted {
            PreviewKind::Pixels { .. } => (Form::Rgba, self.rgba),
            _ => self.file()?,
        };
        Ok(Preview {
            form,
            bytes,
            width: self.width,
            height: self.height,
            original: None,
            sound: None,
            facts: Vec::new(),
        })
    }

    /// Encodes the picture: as JPEG, or as PNG if some of it is transparent.
    fn file(&self) -> Result<(Form, Vec<u8>), Reason> {
        let pixels = self.rgba.as_chunks::<4>().0;
        let mut out = Vec::new();
        let opaque = pixels.iter().all(|pixel| pixel[3] == 255);
        let written = if opaque {
            let rgb: Vec<u8> = pixels
                .iter()
                .flat_map(|[r, g, b, _]| [*r, *g, *b])
                .collect();
            let encoder = JpegEncoder::new_with_quality(&mut out, QUALITY);
            encoder.write_image(&rgb, self.width, self.height, ExtendedColorType::Rgb8)
        } else {
            let encoder =
                PngEncoder::new_with_quality(&mut out, CompressionType::Fast, FilterType::Adaptive);
            encoder.write_image(
                &self.rgba,
                self.width,
                self.height,
                ExtendedColorType::Rgba8,
            )
        };
        match written {
            Ok(()) if opaque => Ok((Form::Jpeg, out)),
            Ok(()) => Ok((Form::Png, out)),
            Err(e) => Err(Reason::new(
                Kind::Damaged,
                format!("the preview cannot be encoded: {e}"),
            )),
        }
    }
}

/// The quality of JPEG previews.
const QUALITY: u8 = 85;

#[cfg(test)]
mod tests {
    use super::*;

    fn shrink(from: (u32, u32), edge: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Picture {
        let mut canvas = Canvas::new(from.into(), edge, &Limits::default()).expect("small enough");
        for y in 0..from.1 {
            let row: Vec<u8> = (0..from.0).flat_map(|x| pixel(x, y)).collect();
            canvas.row(&row);
        }
        canvas.finish()
    }

    #[test]
    fn rows_without_transparency_give_the_same_picture() {
        for (from, edge) in [
            ((640, 480), 100),
            ((65, 47), 16),
            ((5, 300), 7),
            ((300, 1), 256),
            ((31, 17), 30),
            ((8, 8), 8),
        ] {
            let pixel = |x: u32, y: u32| {
                let n = x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503);
                [(n >> 3) as u8, (n >> 11) as u8, (x * 3) as u8, 255]
            };
            let want = shrink(from, edge, pixel);
            // By turns as well: a decoder may give either.
            for every in [1, 3] {
                let mut canvas =
                    Canvas::new(from.into(), edge, &Limits::default()).expect("small enough");
                for y in 0..from.1 {
                    let row: Vec<[u8; 4]> = (0..from.0).map(|x| pixel(x, y)).collect();
                    match y % every {
                        0 => canvas.opaque_row(
                            row.iter()
                                .flat_map(|[r, g, b, _]| [*r, *g, *b])
                                .collect::<Vec<_>>()
                                .as_slice(),
                        ),
                        _ => canvas.row(row.as_flattened()),
                    }
                }
                assert!(canvas.finish() == want, "{from:?} {edge} {every}");
            }
        }
    }

    /// The mean of an area, computed slowly.
    fn mean(
        from: (u32, u32),
        to: (u32, u32),
        at: (u32, u32),
        pixel: &impl Fn(u32, u32) -> [u8; 4],
    ) -> [f64; 4] {
        let scale = (
            f64::from(from.0) / f64::from(to.0),
            f64::from(from.1) / f64::from(to.1),
        );
        let area = |n: u32, i: u32, scale: f64| {
            let (low, high) = (f64::from(i) * scale, f64::from(i + 1) * scale);
            (f64::from(n) + 1.0).min(high) - f64::from(n).max(low)
        };
        let (mut sum, mut weight) = ([0.0; 4], 0.0);
        for y in 0..from.1 {
            for x in 0..from.0 {
                let (w, h) = (area(x, at.0, scale.0), area(y, at.1, scale.1));
                if w > 0.0 && h > 0.0 {
                    let [r, g, b, a] = pixel(x, y).map(f64::from);
                    for (sum, part) in sum.iter_mut().zip([r * a, g * a, b * a, a]) {
                        *sum += part * w * h;
                    }
                    weight += w * h;
                }
            }
        }
        let a = sum[3];
        let colour = |sum: f64| if a > 0.0 { sum / a } else { 0.0 };
        [colour(sum[0]), colour(sum[1]), colour(sum[2]), a / weight]
    }

    #[test]
    fn each_pixel_is_the_mean_of_its_area() {
        for (from, edge) in [
            ((64, 48), 16),
            ((65, 47), 16),
            ((17, 5), 16),
            ((5, 300), 7),
            ((300, 1), 256),
            ((33, 33), 1),
            ((31, 17), 30),
        ] {
            for clear in [false, true] {
                let pixel = |x: u32, y: u32| {
                    let n = x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503);
                    let alpha = if clear { (n >> 7) as u8 } else { 255 };
                    [(n >> 3) as u8, (n >> 11) as u8, (x * 3) as u8, alpha]
                };
                let picture = shrink(from, edge, pixel);
                let to = (picture.width, picture.height);
                assert_eq!(Size::from(to), fit(from.into(), edge));
                for y in 0..to.1 {
                    for x in 0..to.0 {
                        let want = mean(from, to, (x, y), &pixel);
                        let at = ((y * to.0 + x) * 4) as usize;
                        for (got, want) in picture.rgba[at..at + 4].iter().zip(want) {
                            let off = (f64::from(*got) - want).abs();
                            assert!(off <= 0.51, "{from:?} {x},{y}: {got} for {want}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn large_pictures_do_not_overflow() {
        let picture = shrink((70_000, 3), 2, |_, _| [255; 4]);
        assert_eq!(picture.rgba, [255; 8]);
    }

    #[test]
    fn sizes_beyond_the_limits_are_refused() {
        let limits = Limits::default();
        for size in [(0, 1), (1, 0), (u32::MAX, u32::MAX), (100_000, 100_000)] {
            assert!(Canvas::new(size.into(), 256, &limits).is_err(), "{size:?}");
        }
        assert!(Canvas::new((8_000, 8_000).into(), u32::MAX, &limits).is_err());
        assert!(Canvas::new((8_000, 8_000).into(), 2_048, &limits).is_ok());
    }

    #[test]
    fn opaque_pictures_become_jpeg_and_others_png() {
        for (alpha, form) in [(255, Form::Jpeg), (254, Form::Png)] {
            let picture = shrink((9, 5), 99, |x, _| [x as u8, 7, 7, alpha]);
            let preview = picture.encode(PreviewKind::Thumbnail).expect("encoded");
            assert_eq!((preview.form, preview.width, preview.height), (form, 9, 5));
        }
    }
}
