//! Sounds: their peaks, as numbers or as a drawing.

use super::{Ask, DecodedFile, damaged};
use crate::input::Input;
use crate::paint::Picture;
use crate::preview::{Kind, PreviewKind, Reason, Sound};
use std::io::{Read, Seek, SeekFrom};
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, SeekMode, SeekTo, Track, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::units::{TimeBase, Timestamp};

/// No sound for people has more channels.
const MAX_CHANNELS: usize = 64;
/// So many samples of all channels are decoded one after the other; of a longer range, only parts are. It takes about
/// 4 seconds.
const MAX_DECODED: u64 = 400_000_000;
/// Of a part, so many samples of a channel.
const PART: u64 = 8192;
/// So many parts.
const PARTS: u32 = 400;
/// Packets in a row that cannot be decoded.
const MAX_BROKEN: u32 = 1000;

/// The file, as the decoders want it.
struct Source<'a, 'b>(&'a mut Input<'b>);

impl Read for Source<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }
}

impl Seek for Source<'_, '_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

impl MediaSource for Source<'_, '_> {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.0.len())
    }
}

/// A file whose sound can be decoded.
struct Player<'a> {
    format: Box<dyn FormatReader + 'a>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    base: Option<TimeBase>,
    rate: u32,
    planes: Vec<Vec<f32>>,
}

/// Lowest and highest samples of the parts of a range.
struct Peaks {
    from: u64,
    /// Samples of a channel in all buckets, if that is known; or in one bucket.
    span: Span,
    buckets: usize,
    /// For each channel and bucket.
    channels: Vec<Vec<Bucket>>,
}

#[derive(Clone, Copy)]
enum Span {
    All(u64),
    /// The end is not known. A bucket grows when there are too many.
    Each(u64),
}

/// The lowest and the highest sample of a part.
#[derive(Clone, Copy)]
struct Bucket {
    low: f32,
    high: f32,
}

impl Bucket {
    /// A bucket without samples.
    const NONE: Bucket = Bucket {
        low: f32::INFINITY,
        high: f32::NEG_INFINITY,
    };

    /// Returns the bucket of the samples of both.
    fn join(self, other: Bucket) -> Bucket {
        Bucket {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// Reads a sound. Of a file with several, the one that is played without a choice.
pub fn read(
    input: &mut Input<'_>,
    ending: &str,
    wanted: PreviewKind,
    ask: &Ask<'_>,
) -> Result<DecodedFile, Reason> {
    input.seek(SeekFrom::Start(0)).map_err(damaged)?;
    let stream = MediaSourceStream::new(Box::new(Source(input)), Default::default());
    let mut hint = Hint::new();
    hint.with_extension(ending);
    let probe = symphonia::default::get_probe();
    let format = probe.probe(
        &hint,
        stream,
        FormatOptions::default(),
        MetadataOptions::default(),
    );
    let format = format.map_err(failed)?;
    let track = format.default_track(TrackType::Audio).cloned();
    let track = track.ok_or_else(|| Reason::new(Kind::Absent, "the file has no sound"))?;
    let params = track
        .codec_params
        .as_ref()
        .and_then(|params| params.audio());
    let params = params.ok_or_else(|| damaged("it does not say how its sound is coded"))?;
    let samples = samples(&track, params);
    let mut found = DecodedFile::default();
    found.fact("format", format.format_info().long_name);
    let mut player = Player::new(format, &track, params)?;
    player.tell(params, samples, &mut found);
    let (from, to, buckets) = match (wanted, ask.edge) {
        (PreviewKind::Waveform { from, to, buckets }, _) => (from, to, buckets),
        (_, Some(edge)) => (0, u64::MAX, edge.min(PreviewKind::LARGE)),
        (_, None) => return Ok(found),
    };
    let to = samples.map_or(to, |samples| to.min(samples));
    if from >= to {
        return Err(Reason::new(
            Kind::Absent,
            "the sound ends before the wanted range",
        ));
    }
    let span = match to {
        u64::MAX => Span::Each(64),
        _ => Span::All(to - from),
    };
    let mut peaks = Peaks::new(from, span, buckets);
    let whole = player.listen(from, to, &mut peaks)?;
    if !whole {
        found.fact("waveform", "made of short parts, because the sound is long");
    }
    let end = peaks.finish();
    if peaks.channels.is_empty() {
        return Err(damaged("nothing of its sound can be decoded"));
    }
    found.sound = Some(Sound {
        rate: player.rate,
        channels: peaks.channels.len() as u32,
        samples,
        from,
        to: end.min(to),
    });
    match ask.edge {
        Some(edge) => found.picture = Some(peaks.draw(edge)),
        None => found.peaks = Some(peaks.bytes()),
    }
    Ok(found)
}

/// Returns how many samples a channel has, if the file says so.
fn samples(track: &Track, params: &AudioCodecParameters) -> Option<u64> {
    let frames = track.num_frames.or_else(|| {
        let (base, ticks) = (track.time_base?, track.duration?);
        to_samples(
            Timestamp::try_from(ticks.get()).ok()?,
            Some(base),
            params.sample_rate?,
        )
    });
    frames.filter(|frames| *frames > 0 && *frames < 1 << 48)
}

/// Returns a time as samples.
fn to_samples(time: Timestamp, base: Option<TimeBase>, rate: u32) -> Option<u64> {
    let ticks = u128::try_from(time.get()).ok()?;
    let Some(base) = base else {
        return u64::try_from(ticks).ok();
    };
    let numer = ticks * u128::from(base.numer.get()) * u128::from(rate);
    u64::try_from(numer / u128::from(base.denom.get())).ok()
}

impl<'a> Player<'a> {
    fn new(
        format: Box<dyn FormatReader + 'a>,
        track: &Track,
        params: &AudioCodecParameters,
    ) -> Result<Self, Reason> {
        let codecs = symphonia::default::get_codecs();
        let decoder = codecs.make_audio_decoder(params, &AudioDecoderOptions::default());
        Ok(Self {
            format,
            decoder: decoder.map_err(failed)?,
            track: track.id,
            base: track.time_base,
            rate: params
                .sample_rate
                .filter(|rate| *rate > 0)
                .unwrap_or(48_000),
            planes: Vec::new(),
        })
    }

    fn tell(&self, params: &AudioCodecParameters, samples: Option<u64>, found: &mut DecodedFile) {
        found.fact("codec", self.decoder.codec_info().long_name);
        if let Some(samples) = samples {
            found.fact("duration", duration(samples as f64 / f64::from(self.rate)));
        }
        found.fact("sample rate", format!("{} Hz", self.rate));
        if let Some(channels) = &params.channels {
            found.fact("channels", channels.count());
        }
        if let Some(bits) = params.bits_per_sample {
            found.fact("depth", format!("{bits} bits"));
        }
    }

    /// Adds the samples of a range to the peaks. Returns whether it was all of them.
    fn listen(&mut self, from: u64, to: u64, peaks: &mut Peaks) -> Result<bool, Reason> {
        let channels = self
            .decoder
            .codec_params()
            .channels
            .as_ref()
            .map_or(2, |c| c.count());
        let most = MAX_DECODED / (channels as u64).clamp(1, MAX_CHANNELS as u64);
        if to == u64::MAX || to - from <= most {
            self.play(from, to.min(from.saturating_add(most)), peaks)?;
            return Ok(true);
        }
        for part in 0..u64::from(PARTS) {
            let start =
                from + (u128::from(to - from) * u128::from(part) / u128::from(PARTS)) as u64;
            let end = to.min(start + PART);
            if self.play(start, end, peaks).is_err() {
                break;
            }
            peaks.widen((to - from) / u64::from(PARTS), start);
        }
        Ok(false)
    }

    fn play(&mut self, from: u64, to: u64, peaks: &mut Peaks) -> Result<(), Reason> {
        if from > 0 {
            let ts = self
                .ticks(from)
                .ok_or_else(|| damaged("its times are out of range"))?;
            let track_id = self.track;
            let place = SeekTo::Timestamp { ts, track_id };
            self.format
                .seek(SeekMode::Accurate, place)
                .map_err(failed)?;
            self.decoder.reset();
        }
        let mut at = None;
        let mut broken = 0;
        loop {
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) => packet,
                // The rest of a file that is cut off or changes its tracks is not drawn.
                Ok(None) | Err(Error::IoError(_) | Error::ResetRequired) => return Ok(()),
                Err(_) if at.is_some() => return Ok(()),
                Err(e) => return Err(failed(e)),
            };
            if packet.track_id != self.track {
                continue;
            }
            let start =
                at.unwrap_or_else(|| to_samples(packet.pts, self.base, self.rate).unwrap_or(0));
            let Ok(samples) = self.decoder.decode(&packet) else {
                broken += 1;
                if broken > MAX_BROKEN {
                    return Ok(());
                }
                continue;
            };
            let frames = samples.frames() as u64;
            if samples.num_planes() > MAX_CHANNELS {
                return Err(damaged("it has too many channels"));
            }
            samples.copy_to_vecs_planar(&mut self.planes);
            peaks.add(start, from, to, &self.planes);
            at = Some(start + frames);
            if start + frames >= to {
                return Ok(());
            }
        }
    }

    fn ticks(&self, samples: u64) -> Option<Timestamp> {
        let Some(base) = self.base else {
            return Timestamp::try_from(samples).ok();
        };
        let numer = u128::from(samples) * u128::from(base.denom.get());
        let ticks = numer / (u128::from(base.numer.get()) * u128::from(self.rate));
        Timestamp::try_from(u64::try_from(ticks).ok()?).ok()
    }
}

impl Peaks {
    fn new(from: u64, span: Span, buckets: u32) -> Self {
        Self {
            from,
            span,
            buckets: buckets.clamp(1, PreviewKind::MAX_BUCKETS) as usize,
            channels: Vec::new(),
        }
    }

    /// Returns the bucket of a sample.
    fn bucket(&self, sample: u64) -> usize {
        let offset = sample - self.from;
        match self.span {
            Span::All(all) => {
                (u128::from(offset) * self.buckets as u128 / u128::from(all)) as usize
            }
            Span::Each(each) => (offset / each) as usize,
        }
    }

    /// Adds samples that begin at `start`, as far as they lie from `from` up to `to`.
    fn add(&mut self, start: u64, from: u64, to: u64, planes: &[Vec<f32>]) {
        if self.channels.is_empty() {
            self.channels = vec![Vec::new(); planes.len()];
        }
        let len = planes.first().map_or(0, Vec::len) as u64;
        let (mut at, end) = (start.max(from), (start + len).min(to));
        while at < end {
            let bucket = self.bucket(at);
            let next = self.first_after(bucket).clamp(at + 1, end);
            let range = (at - start) as usize..(next - start) as usize;
            for (channel, plane) in self.channels.iter_mut().zip(planes) {
                if channel.len() <= bucket {
                    channel.resize(bucket + 1, Bucket::NONE);
                }
                let Bucket { mut low, mut high } = channel[bucket];
                for sample in plane.get(range.clone()).unwrap_or_default() {
                    low = low.min(*sample);
                    high = high.max(*sample);
                }
                channel[bucket] = Bucket { low, high };
            }
            at = next;
            self.merge();
        }
    }

    /// Returns the first sample after a bucket.
    fn first_after(&self, bucket: usize) -> u64 {
        let next = bucket as u64 + 1;
        self.from
            + match self.span {
                Span::All(all) => {
                    (u128::from(all) * u128::from(next)).div_ceil(self.buckets as u128) as u64
                }
                Span::Each(each) => next * each,
            }
    }

    /// Joins pairs of buckets when there are too many.
    fn merge(&mut self) {
        let Span::Each(each) = self.span else {
            return;
        };
        if self
            .channels
            .iter()
            .all(|channel| channel.len() <= self.buckets)
        {
            return;
        }
        for channel in &mut self.channels {
            *channel = channel
                .chunks(2)
                .map(|two| two.iter().copied().fold(Bucket::NONE, Bucket::join))
                .collect();
        }
        self.span = Span::Each(each * 2);
    }

    /// Gives the buckets of the `len` samples from `start` on, which were not all decoded, what the first of them has.
    fn widen(&mut self, len: u64, start: u64) {
        let (first, last) = (self.bucket(start), self.bucket(start + len.max(1) - 1));
        for channel in &mut self.channels {
            let known = channel
                .get(first..)
                .unwrap_or_default()
                .iter()
                .copied()
                .fold(Bucket::NONE, Bucket::join);
            channel.resize(
                channel.len().max(last.min(self.buckets - 1) + 1),
                Bucket::NONE,
            );
            for bucket in &mut channel[first..=last.min(self.buckets - 1)] {
                *bucket = known;
            }
        }
    }

    /// Gives every channel the same number of buckets. Returns the end of the range.
    fn finish(&mut self) -> u64 {
        let longest = self.channels.iter().map(Vec::len).max().unwrap_or(0);
        let len = match self.span {
            Span::All(_) => self.buckets,
            Span::Each(_) => longest.clamp(1, self.buckets),
        };
        for channel in &mut self.channels {
            channel.resize(len, Bucket::NONE);
        }
        match self.span {
            Span::All(all) => self.from + all,
            Span::Each(each) => self.from + each * len as u64,
        }
    }

    /// Returns the number of buckets, the number of channels, and the peaks as the wire has them.
    fn bytes(&self) -> (u32, u32, Vec<u8>) {
        let mut out = Vec::new();
        for Bucket { low, high } in self.channels.iter().flatten().copied() {
            out.extend_from_slice(&level(low).to_le_bytes());
            out.extend_from_slice(&level(high).to_le_bytes());
        }
        let buckets = self.channels.first().map_or(0, Vec::len);
        (buckets as u32, self.channels.len() as u32, out)
    }

    /// Draws the channels one below the other.
    fn draw(&self, edge: u32) -> Picture {
        let width = self.channels.first().map_or(1, Vec::len).max(1);
        let height = if edge <= PreviewKind::THUMBNAIL {
            (edge as usize * 3 / 8).max(1)
        } else {
            (edge as usize / 4).clamp(1, 512)
        };
        let mut rgba = vec![0; width * height * 4];
        let shown = self.channels.len().clamp(1, 8).min(height);
        let lane = height / shown;
        for (number, channel) in self.channels.iter().take(shown).enumerate() {
            let middle = |value: f32| {
                let down = (1.0 - value.clamp(-1.0, 1.0)) / 2.0;
                (down * (lane - 1) as f32).round() as usize
            };
            for (x, Bucket { low, high }) in channel.iter().enumerate() {
                let (top, bottom) = if low > high {
                    (middle(0.0), middle(0.0))
                } else {
                    (middle(*high), middle(*low))
                };
                for y in top..=bottom {
                    let at = ((number * lane + y) * width + x) * 4;
                    rgba[at..at + 4].copy_from_slice(&INK);
                }
            }
        }
        Picture {
            width: width as u32,
            height: height as u32,
            rgba,
        }
    }
}

/// The colour of drawn waveforms: readable on white and on black.
const INK: [u8; 4] = [62, 130, 196, 255];

/// Returns a sample as 16 bits. A bucket without samples is silent.
fn level(value: f32) -> i16 {
    if value.is_finite() {
        (value * 32768.0).round().clamp(-32768.0, 32767.0) as i16
    } else {
        0
    }
}

/// Returns a duration as people write it: 1:02:03.5
fn duration(seconds: f64) -> String {
    let tenths = (seconds * 10.0).round() as u64;
    let (hours, minutes) = (tenths / 36_000, tenths / 600 % 60);
    let rest = format!("{:02}.{}", tenths / 10 % 60, tenths % 10);
    match hours {
        0 => format!("{minutes}:{rest}"),
        _ => format!("{hours}:{minutes:02}:{rest}"),
    }
}

fn failed(e: Error) -> Reason {
    match e {
        Error::Unsupported(what) => Reason::new(
            Kind::Unknown,
            format!("dmv does not know this kind of sound: {what}"),
        ),
        e => damaged(e),
    }
}
