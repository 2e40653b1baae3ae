//! OpenEXR pictures: the first layer with colours, or the one with a single channel.

use super::picture::{light, share};
use super::{Ask, DecodedFile, damaged};
use crate::input::Input;
use crate::paint::{Picture, check_size};
use crate::preview::{Kind, Reason};
use exr::meta::MetaData;
use exr::meta::header::Header;
use exr::prelude::{
    Compression, ReadChannels, ReadLayers, ReadSpecificChannel, Vec2, read as reader,
};
use std::io::{Seek, SeekFrom};

/// Pixels as they come in, block by block.
struct Pixels {
    width: usize,
    rgba: Vec<[u8; 4]>,
}

impl Pixels {
    fn new(size: Vec2<usize>) -> Self {
        Self {
            width: size.0,
            rgba: vec![[0; 4]; size.area()],
        }
    }

    fn set(&mut self, at: Vec2<usize>, pixel: [u8; 4]) {
        if let Some(place) = self.rgba.get_mut(at.1 * self.width + at.0) {
            *place = pixel;
        }
    }
}

/// Reads a picture.
pub fn read(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    input.seek(SeekFrom::Start(0)).map_err(damaged)?;
    let meta = MetaData::read_from_buffered(&mut *input, false).map_err(failed)?;
    let header = meta.headers.iter().find(|header| !header.deep);
    let Some(header) = header else {
        return Err(unknown(
            "the file has deep data alone, and no preview of it is made",
        ));
    };
    let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let size = (side(header.layer_size.0), side(header.layer_size.1));
    check_size(size.into(), ask.limits)?;
    ask.check_bytes(u64::from(size.0) * u64::from(size.1) * 4)?;
    let mut found = DecodedFile {
        original: Some(size),
        ..DecodedFile::default()
    };
    tell(&meta, header, &mut found);
    let Some(mut canvas) = ask.canvas(size.into())? else {
        return Ok(found);
    };
    if matches!(
        header.compression,
        Compression::DWAA(_) | Compression::DWAB(_)
    ) {
        if ask.gain != 1.0 {
            let words = "the file is compressed with DWA, and its preview knows no more light than a screen";
            return Err(Reason::new(Kind::Absent, words));
        }
        found.picture = Some(small(header).ok_or_else(|| {
            unknown(
                "the file is compressed with DWA, which dmv cannot decode, and holds no preview",
            )
        })?);
        found.fact("shown", "the preview that lies in the file");
        return Ok(found);
    }
    let colours = ["R", "G", "B"].iter().all(|name| has(header, name));
    let pixels = if colours {
        colour(input, ask.gain)?
    } else {
        grey(input, header, ask.gain)?
    };
    for row in pixels.rgba.chunks_exact(pixels.width.max(1)) {
        canvas.row(row.as_flattened());
    }
    found.picture = Some(canvas.finish());
    Ok(found)
}

fn has(header: &Header, name: &str) -> bool {
    header
        .channels
        .list
        .iter()
        .any(|channel| channel.name == *name)
}

fn tell(meta: &MetaData, header: &Header, found: &mut DecodedFile) {
    found.fact("format", "OpenEXR");
    let mut names: Vec<_> = header
        .channels
        .list
        .iter()
        .take(16)
        .map(|c| c.name.to_string())
        .collect();
    if header.channels.list.len() > names.len() {
        names.push("...".into());
    }
    found.fact("channels", names.join(", "));
    if let Some(channel) = header.channels.list.first() {
        found.fact("depth", format!("{:?}", channel.sample_type).to_lowercase());
    }
    found.fact("compression", header.compression);
    if meta.headers.len() > 1 {
        found.fact("parts", meta.headers.len());
    }
    let window = header.shared_attributes.display_window.size;
    if window != header.layer_size {
        found.fact("display window", format!("{} x {}", window.0, window.1));
    }
    if let Some(software) = &header.own_attributes.software_name {
        found.fact("software", software);
    }
}

/// Reads the first layer that has the three colours.
fn colour(input: &mut Input<'_>, gain: f32) -> Result<Pixels, Reason> {
    input.seek(SeekFrom::Start(0)).map_err(damaged)?;
    let image = reader()
        .no_deep_data()
        .largest_resolution_level()
        .rgba_channels(
            |size, _| Pixels::new(size),
            move |pixels: &mut Pixels, at, (r, g, b, a): (f32, f32, f32, f32)| {
                pixels.set(at, straight([r, g, b], a, gain));
            },
        )
        .first_valid_layer()
        .all_attributes()
        .non_parallel()
        .from_buffered(input)
        .map_err(failed)?;
    Ok(image.layer_data.channel_data.pixels)
}

/// Reads the brightness, or the only channel that there is.
fn grey(input: &mut Input<'_>, header: &Header, gain: f32) -> Result<Pixels, Reason> {
    let name = match header.channels.list.as_slice() {
        [only] => only.name.to_string(),
        _ if has(header, "Y") => "Y".to_owned(),
        _ => {
            return Err(unknown(
                "the file has no channels R, G and B, so that it cannot be shown as one picture",
            ));
        }
    };
    input.seek(SeekFrom::Start(0)).map_err(damaged)?;
    let image = reader()
        .no_deep_data()
        .largest_resolution_level()
        .specific_channels()
        .required(name.as_str())
        .collect_pixels(
            |size, _| Pixels::new(size),
            move |pixels: &mut Pixels, at, (y,): (f32,)| {
                pixels.set(at, straight([y; 3], 1.0, gain))
            },
        )
        .first_valid_layer()
        .all_attributes()
        .non_parallel()
        .from_buffered(input)
        .map_err(failed)?;
    Ok(image.layer_data.channel_data.pixels)
}

/// Returns a pixel whose linear colours are multiplied with its alpha, as sRGB with plain colours, `gain` times as bright.
fn straight(colours: [f32; 3], alpha: f32, gain: f32) -> [u8; 4] {
    let divide = if alpha > 0.0 && alpha < 1.0 {
        alpha
    } else {
        1.0
    };
    let [r, g, b] = colours.map(|colour| light(colour / divide * gain));
    [r, g, b, share(alpha)]
}

/// Returns the preview that lies in the file's head.
fn small(header: &Header) -> Option<Picture> {
    let preview = header.own_attributes.preview.as_ref()?;
    let (width, height) = (preview.size.0, preview.size.1);
    let rgba: Vec<u8> = preview
        .pixel_data
        .iter()
        .map(|byte| byte.cast_unsigned())
        .collect();
    let fits = (1..=2048).contains(&width) && (1..=2048).contains(&height);
    (fits && rgba.len() == width * height * 4).then_some(Picture {
        width: width as u32,
        height: height as u32,
        rgba,
    })
}

fn unknown(words: &str) -> Reason {
    Reason::new(Kind::Unknown, words)
}

fn failed(e: exr::error::Error) -> Reason {
    match e {
        exr::error::Error::NotSupported(what) => {
            unknown(&format!("this variant of OpenEXR is not known: {what}"))
        }
        e => damaged(e),
    }
}
