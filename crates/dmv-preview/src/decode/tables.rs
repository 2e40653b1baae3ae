//! The tables of TIFF files, which EXIF data and most camera RAW files have as well: facts about the camera, the
//! orientation, and where pictures lie. Every number comes from the file and is checked.
#![expect(clippy::big_endian_bytes, reason = "the format has such numbers")]

use super::DecodedFile;
use crate::input::Input;
use image::metadata::Orientation;

/// A JPEG stream within the file: offset and length.
pub type Part = (u64, u64);

/// What the tables say.
#[derive(Default)]
pub struct Tables {
    /// Where JPEG streams may lie.
    pub pictures: Vec<Part>,
    /// How the picture is seen.
    pub orientation: Option<Orientation>,
    /// Whether the file says that it is a DNG.
    pub is_dng: bool,
    make: String,
    model: String,
    lens: String,
    taken: String,
    exposure: Option<(u32, u32)>,
    aperture: Option<(u32, u32)>,
    sensitivity: Option<u32>,
    focal: Option<(u32, u32)>,
}

/// No file has more tables or longer ones.
const MAX_TABLES: usize = 64;
const MAX_ENTRIES: u64 = 1000;

/// One entry of a table.
struct Entry {
    tag: u16,
    kind: u16,
    count: u32,
    /// The value, or the offset where it lies.
    value: [u8; 4],
}

/// Reads tables whose offsets count from `base`.
struct Reader<'a, 'b> {
    input: &'a mut Input<'b>,
    base: u64,
    little: bool,
}

/// Reads the tables of a TIFF structure that begins at `base`. `None` if none begins there.
pub fn read(input: &mut Input<'_>, base: u64) -> Option<Tables> {
    let head = input.range(base, 8).ok()?;
    let little = match head.get(..2)? {
        b"II" => true,
        b"MM" => false,
        _ => return None,
    };
    let mut reader = Reader {
        input,
        base,
        little,
    };
    let first = reader.u32(head.get(4..8)?)?;
    let mut out = Tables::default();
    let mut todo = vec![first];
    let mut seen = Vec::new();
    while let Some(at) = todo.pop() {
        if at == 0 || seen.contains(&at) || seen.len() >= MAX_TABLES {
            continue;
        }
        seen.push(at);
        reader.table(at, &mut out, &mut todo);
    }
    Some(out)
}

impl Reader<'_, '_> {
    fn u16(&self, bytes: &[u8]) -> Option<u16> {
        let bytes = bytes.get(..2)?.try_into().ok()?;
        Some(if self.little {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        })
    }

    fn u32(&self, bytes: &[u8]) -> Option<u32> {
        let bytes = bytes.get(..4)?.try_into().ok()?;
        Some(if self.little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    /// Reads one table, and adds the tables that it names to `todo`. A damaged table ends early.
    fn table(&mut self, at: u32, out: &mut Tables, todo: &mut Vec<u32>) -> Option<()> {
        let at = self.base.checked_add(u64::from(at))?;
        let count = self.input.range(at, 2).ok()?;
        let count = u64::from(self.u16(&count)?).min(MAX_ENTRIES);
        let bytes = self.input.range(at + 2, count * 12).ok()?;
        let mut part = (None, None, None);
        let mut strips = (None, None);
        for bytes in bytes.as_chunks::<12>().0 {
            let entry = Entry {
                tag: self.u16(&bytes[..2])?,
                kind: self.u16(&bytes[2..4])?,
                count: self.u32(&bytes[4..8])?,
                value: bytes[8..].try_into().ok()?,
            };
            match entry.tag {
                0x0103 => part.2 = self.number(&entry),
                0x0111 if entry.count == 1 => strips.0 = self.number(&entry),
                0x0117 if entry.count == 1 => strips.1 = self.number(&entry),
                0x0201 => part.0 = self.number(&entry),
                0x0202 => part.1 = self.number(&entry),
                // Tables below: pictures, EXIF.
                0x014a | 0x8769 => todo.extend(self.numbers(&entry)),
                // Panasonic: the file's picture as JPEG.
                0x002e => {
                    let at = self.base + u64::from(self.u32(&entry.value)?);
                    out.pictures.push((at, u64::from(entry.count)));
                }
                _ => self.fact(&entry, out),
            }
        }
        if let (Some(offset), Some(len), _) = part {
            let at = self.base + u64::from(offset);
            out.pictures.push((at, u64::from(len)));
        }
        if let ((Some(offset), Some(len)), Some(6 | 7)) = (strips, part.2) {
            let at = self.base + u64::from(offset);
            out.pictures.push((at, u64::from(len)));
        }
        let next = self.input.range(at + 2 + count * 12, 4).ok()?;
        todo.push(self.u32(&next)?);
        Some(())
    }

    fn fact(&mut self, entry: &Entry, out: &mut Tables) {
        match entry.tag {
            0x010f => out.make = self.text(entry),
            0x0110 => out.model = self.text(entry),
            0x0112 => {
                let number = self.number(entry).and_then(|n| u8::try_from(n).ok());
                // The first table is the one of the whole file.
                out.orientation = out.orientation.or(number.and_then(Orientation::from_exif));
            }
            0x829a => out.exposure = self.ratio(entry),
            0x829d => out.aperture = self.ratio(entry),
            0x8827 => out.sensitivity = self.number(entry),
            0x9003 => out.taken = self.text(entry),
            0x920a => out.focal = self.ratio(entry),
            0xa434 => out.lens = self.text(entry),
            0xc612 => out.is_dng = true,
            _ => {}
        }
    }

    /// Returns the first number of an entry: 8, 16 or 32 bits.
    fn number(&self, entry: &Entry) -> Option<u32> {
        match entry.kind {
            1 => Some(u32::from(entry.value[0])),
            3 => self.u16(&entry.value).map(u32::from),
            4 | 13 => self.u32(&entry.value),
            _ => None,
        }
    }

    /// Returns the 32-bit numbers of an entry, at most as many as there may be tables.
    fn numbers(&mut self, entry: &Entry) -> Vec<u32> {
        let count = u64::from(entry.count).min(MAX_TABLES as u64);
        if count == 1 {
            return self.u32(&entry.value).into_iter().collect();
        }
        let bytes = self.elsewhere(entry, count * 4).unwrap_or_default();
        let parts = bytes.as_chunks::<4>().0.iter();
        parts.filter_map(|bytes| self.u32(bytes)).collect()
    }

    fn ratio(&mut self, entry: &Entry) -> Option<(u32, u32)> {
        let bytes = self.elsewhere(entry, 8).filter(|_| entry.kind == 5)?;
        Some((self.u32(&bytes)?, self.u32(&bytes[4..])?))
    }

    fn text(&mut self, entry: &Entry) -> String {
        let len = u64::from(entry.count).min(200);
        let bytes = if len <= 4 {
            Some(entry.value[..len as usize].to_vec())
        } else {
            self.elsewhere(entry, len)
        };
        let bytes = bytes.filter(|_| entry.kind == 2).unwrap_or_default();
        let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim().to_owned()
    }

    fn elsewhere(&mut self, entry: &Entry, len: u64) -> Option<Vec<u8>> {
        let at = self.base.checked_add(u64::from(self.u32(&entry.value)?))?;
        self.input.range(at, len).ok()
    }
}

impl Tables {
    /// Adds what is known about the camera and the exposure.
    pub fn tell(&self, found: &mut DecodedFile) {
        let camera = if self.model.starts_with(&self.make) {
            self.model.clone()
        } else {
            format!("{} {}", self.make, self.model)
        };
        found.fact("camera", camera);
        found.fact("lens", &self.lens);
        if let Some((a, b)) = self.exposure.filter(|(a, b)| *a > 0 && *b > 0) {
            let seconds = f64::from(a) / f64::from(b);
            if seconds < 0.4 {
                found.fact("exposure", format!("1/{:.0} s", 1.0 / seconds))
            } else {
                found.fact("exposure", format!("{} s", round(seconds)))
            }
        }
        if let Some((a, b)) = self.aperture.filter(|(a, b)| *a > 0 && *b > 0) {
            let number = f64::from(a) / f64::from(b);
            found.fact("aperture", format!("f/{}", round(number)));
        }
        if let Some(iso) = self.sensitivity {
            found.fact("sensitivity", format!("ISO {iso}"));
        }
        if let Some((a, b)) = self.focal.filter(|(a, b)| *a > 0 && *b > 0) {
            let length = f64::from(a) / f64::from(b);
            found.fact("focal length", format!("{} mm", round(length)));
        }
        found.fact("taken", &self.taken);
    }
}

/// Returns a number with at most one digit behind the point.
fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
