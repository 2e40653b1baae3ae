//! Draws curves as SVG, with both axes logarithmic.
//!
//! A plot is 800 pixels wide and needs no font of its own. The colours are those of Okabe and Ito,
//! which colour-blind people tell apart; every curve has its own mark too. A style sheet in the
//! file changes the colours where the reader prefers dark pages. This module knows curves alone,
//! and nothing of what was measured.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::size;

/// Pixels of a plot.
const WIDTH: i32 = 800;
const HEIGHT: i32 = 460;
/// Pixels of the legend, at the right.
const LEGEND_WIDTH: i32 = 150;
/// Pixels of one entry of the legend.
const LEGEND_LINE: i32 = 38;
/// Pixels from the middle of a mark to its edge.
const MARK: f64 = 5.0;
/// The most grid lines of an axis.
const MAX_TICKS: usize = 9;
/// Sizes of text are given a quarter larger than they are drawn: plotters takes them for the height
/// of a line.
const FONT: &str = "system-ui, sans-serif";

/// A colour on light and on dark pages. No two roles share the light one: the style sheet finds a
/// role by it.
struct Paint {
    light: RGBColor,
    dark: RGBColor,
}

const fn paint(light: u32, dark: u32) -> Paint {
    const fn rgb(n: u32) -> RGBColor {
        RGBColor((n >> 16) as u8, (n >> 8) as u8, n as u8)
    }
    Paint {
        light: rgb(light),
        dark: rgb(dark),
    }
}

const PAGE: Paint = paint(0xFFFFFE, 0x0D1117);
const TEXT: Paint = paint(0x1F2328, 0xE6EDF3);
const AXIS: Paint = paint(0x59636E, 0x9198A1);
const GRID: Paint = paint(0xD8DEE4, 0x30363D);
/// What curves beyond the known ones share.
const OTHER: (Paint, Mark) = (paint(0x8C6D31, 0xC9A96A), Mark::Corners(6, 0.0));

/// How the curve of each known tool is drawn.
const STYLES: [(&str, Paint, Mark); 8] = [
    ("dmv", paint(0xD55E00, 0xFF8A3D), Mark::Corners(16, 0.0)),
    ("cp", paint(0x767676, 0xB3B3B3), Mark::Plus),
    ("git", paint(0x0072B2, 0x3FA7E4), Mark::Corners(4, 0.125)),
    ("hg", paint(0x009E73, 0x2CC79A), Mark::Corners(3, 0.0)),
    ("bup", paint(0xCC79A7, 0xE6A3C8), Mark::Corners(3, 0.5)),
    ("borg", paint(0xE69F00, 0xF2C043), Mark::Corners(4, 0.0)),
    ("restic", paint(0x56B4E9, 0xA3DAFA), Mark::Corners(5, 0.0)),
    ("casync", paint(0x000000, 0xFFFFFF), Mark::Star),
];

/// The shape of a mark.
#[derive(Clone, Copy)]
enum Mark {
    /// A regular polygon: its corners, and by what part of a turn it is turned.
    Corners(u32, f64),
    /// Two bars that cross.
    Plus,
    /// A star of four rays.
    Star,
}

impl Mark {
    fn outline(self) -> Vec<(i32, i32)> {
        let at = |turn: f64, radius: f64| {
            let (sin, cos) = (turn * std::f64::consts::TAU).sin_cos();
            (
                (sin * radius).round() as i32,
                (-cos * radius).round() as i32,
            )
        };
        match self {
            Mark::Corners(n, turned) => (0..n)
                .map(|corner| at(f64::from(corner) / f64::from(n) + turned, MARK))
                .collect(),
            Mark::Star => (0..8)
                .map(|corner| {
                    let radius = if corner % 2 == 0 { MARK + 2.0 } else { 2.2 };
                    at(f64::from(corner) / 8.0, radius)
                })
                .collect(),
            Mark::Plus => vec![
                (-1, -5),
                (1, -5),
                (1, -1),
                (5, -1),
                (5, 1),
                (1, 1),
                (1, 5),
                (-1, 5),
                (-1, 1),
                (-5, 1),
                (-5, -1),
                (-1, -1),
            ],
        }
    }
}

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, in powers of 1,024.
    Bytes,
    /// Things.
    Count,
    /// Seconds.
    Seconds,
    /// One number divided by another.
    Ratio,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::Bytes => size::bytes(value),
            Unit::Count => size::count(value as u64),
            Unit::Seconds if value < 1e-3 => format!("{} µs", size::three_digits(value * 1e6)),
            Unit::Seconds if value < 1.0 => format!("{} ms", size::three_digits(value * 1e3)),
            Unit::Seconds => format!("{} s", size::three_digits(value)),
            Unit::Ratio => format!("{}×", size::three_digits(value)),
        }
    }

    /// Where grid lines lie between `least` and `most`: as close as still readable.
    fn ticks(self, least: f64, most: f64) -> Vec<f64> {
        let series: Vec<Vec<f64>> = match self {
            Unit::Bytes => [1, 2, 5, 10]
                .map(|step| (0..60).step_by(step).map(|n| 2_f64.powi(n)).collect())
                .into(),
            Unit::Count | Unit::Seconds | Unit::Ratio => {
                let decades = |factors: &[f64], step| -> Vec<f64> {
                    let powers = (-9..15).step_by(step).map(|n| 10_f64.powi(n));
                    powers
                        .flat_map(|p| factors.iter().map(move |f| f * p))
                        .collect()
                };
                vec![
                    decades(&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], 1),
                    decades(&[1.0, 2.0, 5.0], 1),
                    decades(&[1.0, 3.0], 1),
                    decades(&[1.0], 1),
                    decades(&[1.0], 3),
                ]
            }
        };
        let inside = |ticks: Vec<f64>| -> Vec<f64> {
            let mut ticks = ticks;
            // Powers of ten are not exact.
            ticks.retain(|t| *t >= least * 0.999 && *t <= most * 1.001);
            ticks
        };
        let mut series = series.into_iter().map(inside);
        let fitting = series.find(|ticks| ticks.len() <= MAX_TICKS);
        fitting.unwrap_or_default()
    }
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What stands beside it.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
}

/// One tool's line.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The tool.
    pub name: String,
    /// Its points, all above zero, from left to right.
    pub points: Vec<(f64, f64)>,
    /// Where it failed or was stopped.
    pub failures: Vec<f64>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What stands above it.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// The tools, in the order of the legend. The first is drawn last, above the others.
    pub curves: Vec<Curve>,
}

/// A plot as the text of an SVG file; `None` if no curve has a point.
pub fn svg(plot: &Plot) -> Result<Option<String>> {
    let points = || plot.curves.iter().flat_map(|curve| &curve.points);
    let failures = plot.curves.iter().flat_map(|curve| &curve.failures);
    let (Some(x), Some(y)) = (
        range(points().map(|(x, _)| *x).chain(failures.copied())),
        range(points().map(|(_, y)| *y)),
    ) else {
        return Ok(None);
    };
    let mut out = String::new();
    draw(plot, x, y, &mut out).map_err(|error| anyhow!("draw {}: {error}", plot.title))?;
    Ok(Some(with_style_sheet(&out)))
}

/// The ends of an axis: a little more than the values need.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    if least > most {
        return None;
    }
    // At least a factor of four, so that equal values lie in the middle.
    let room = (most / least).powf(0.04).max(1.1);
    let room = room.max((4.0 * least / most).sqrt());
    Some((least / room, most * room))
}

type Failure = Box<dyn std::error::Error>;
type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(plot: &Plot, x: (f64, f64), y: (f64, f64), out: &mut String) -> Result<(), Failure> {
    let size = (WIDTH as u32, HEIGHT as u32);
    let root = SVGBackend::with_string(out, size).into_drawing_area();
    root.fill(&PAGE.light)?;
    let (left, right) = root.split_horizontally(WIDTH - LEGEND_WIDTH);
    let font = |size: i32| (FONT, size).into_font().color(&TEXT.light);
    let x_axis = (x.0..x.1).log_scale();
    let y_axis = (y.0..y.1).log_scale();
    let mut chart = ChartBuilder::on(&left)
        .caption(&plot.title, font(22))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d(
            x_axis.with_key_points(plot.x.unit.ticks(x.0, x.1)),
            y_axis.with_key_points(plot.y.unit.ticks(y.0, y.1)),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.light)
        .axis_style(AXIS.light)
        .label_style(font(16))
        .axis_desc_style(font(17))
        .x_label_formatter(&|value| plot.x.unit.text(*value))
        .y_label_formatter(&|value| plot.y.unit.text(*value))
        .x_labels(MAX_TICKS)
        .y_labels(MAX_TICKS)
        .x_desc(&plot.x.name)
        .y_desc(&plot.y.name)
        .draw()?;
    for (n, curve) in plot.curves.iter().enumerate().rev() {
        let (color, mark) = style_of(&curve.name);
        let width = if n == 0 { 3 } else { 2 };
        let line = PathElement::new(curve.points.clone(), color.stroke_width(width));
        chart.draw_series([line])?;
        let outline = mark.outline();
        chart.draw_series(curve.points.iter().map(|point| {
            EmptyElement::at(*point) + Polygon::new(outline.clone(), color.filled())
        }))?;
        // A failure stands at the height that the curve had reached.
        let reached = |x: f64| {
            let before = curve.points.iter().rev().find(|point| point.0 <= x);
            before.map_or(y.0 * (y.1 / y.0).powf(0.04), |point| point.1)
        };
        chart.draw_series(curve.failures.iter().map(|x| {
            let style = color.stroke_width(3);
            EmptyElement::at((*x, reached(*x)))
                + PathElement::new(vec![(-6, -6), (6, 6)], style)
                + PathElement::new(vec![(-6, 6), (6, -6)], style)
        }))?;
    }
    legend(plot, &right)?;
    root.present()?;
    Ok(())
}

fn legend(plot: &Plot, area: &Canvas<'_>) -> Result<(), Failure> {
    for (n, curve) in plot.curves.iter().enumerate() {
        let (color, mark) = style_of(&curve.name);
        let y = 48 + n as i32 * LEGEND_LINE;
        let line = PathElement::new(vec![(4, y), (36, y)], color.stroke_width(2));
        area.draw(&line)?;
        let moved = mark.outline().into_iter().map(|(dx, dy)| (20 + dx, y + dy));
        area.draw(&Polygon::new(moved.collect::<Vec<_>>(), color.filled()))?;
        let font = |size: i32| (FONT, size).into_font().color(&TEXT.light);
        area.draw(&Text::new(curve.name.clone(), (44, y - 7), font(17)))?;
        if let Some(least) = curve.failures.iter().copied().reduce(f64::min) {
            let text = format!("× fails at {}", plot.x.unit.text(least));
            area.draw(&Text::new(text, (44, y + 9), font(15)))?;
        }
    }
    Ok(())
}

fn style_of(name: &str) -> (RGBColor, Mark) {
    let known = STYLES.iter().find(|(known, ..)| *known == name);
    known.map_or((OTHER.0.light, OTHER.1), |(_, paint, mark)| {
        (paint.light, *mark)
    })
}

/// Adds a style sheet with the colours for dark pages. Rules of a style sheet win over the
/// attributes that a program wrote.
fn with_style_sheet(svg: &str) -> String {
    let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let mut rules = String::new();
    let curves = STYLES.iter().map(|(_, paint, _)| paint);
    for paint in curves.chain([&PAGE, &TEXT, &AXIS, &GRID, &OTHER.0]) {
        let (light, dark) = (hex(paint.light), hex(paint.dark));
        for attribute in ["fill", "stroke"] {
            let _ = writeln!(rules, "[{attribute}=\"{light}\"]{{{attribute}:{dark}}}");
        }
    }
    let head = svg.find('>').map_or(0, |end| end + 1);
    format!(
        "{}\n<style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n</style>{}",
        &svg[..head],
        &svg[head..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let axis = |unit| Axis {
            name: "axis".to_owned(),
            unit,
        };
        let curve = |name: &str, factor: f64| Curve {
            name: name.to_owned(),
            points: vec![(1.0, 0.001 * factor), (1024.0, 0.1 * factor)],
            failures: Vec::new(),
        };
        Plot {
            title: "Times & sizes".to_owned(),
            x: axis(Unit::Bytes),
            y: axis(Unit::Seconds),
            curves: vec![curve("dmv", 1.0), curve("git", 2.0), curve("other", 3.0)],
        }
    }

    #[test]
    fn every_curve_is_drawn_in_its_colour_and_named() -> Result<()> {
        let text = svg(&plot())?.unwrap_or_default();
        for wanted in [">\ndmv\n", ">\ngit\n", ">\nother\n", "Times &amp; sizes"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        for (name, lines) in [("dmv", 1), ("git", 1), ("other", 1), ("hg", 0)] {
            let RGBColor(r, g, b) = style_of(name).0;
            let wanted =
                format!("<polyline fill=\"none\" opacity=\"1\" stroke=\"#{r:02X}{g:02X}{b:02X}\"");
            // One line in the plot, one in the legend.
            assert_eq!(text.matches(&wanted).count(), 2 * lines, "{name}");
        }
        assert!(
            text.contains("width=\"800\"") && !text.contains("NaN"),
            "{text}"
        );
        assert!(!text.contains("fails at"), "{text}");
        Ok(())
    }

    #[test]
    fn a_failure_is_marked() -> Result<()> {
        let mut plot = plot();
        plot.curves[1].failures = vec![4096.0, 2048.0];
        let text = svg(&plot)?.unwrap_or_default();
        assert!(text.contains("× fails at 2 KiB"), "{text}");
        // A tool that never succeeded has a mark nevertheless.
        plot.curves[1].points.clear();
        assert!(svg(&plot)?.is_some());
        Ok(())
    }

    #[test]
    fn dark_pages_change_every_colour_that_is_used() -> Result<()> {
        let text = svg(&plot())?.unwrap_or_default();
        let (sheet, drawing) = text.split_once("</style>").unwrap_or_default();
        for attribute in ["fill", "stroke"] {
            for part in drawing.split(&format!("{attribute}=\"#")).skip(1) {
                let rule = format!("[{attribute}=\"#{}\"]", &part[..6]);
                assert!(sheet.contains(&rule), "{rule}");
            }
        }
        let light: std::collections::BTreeSet<_> = sheet.match_indices("[fill=").collect();
        assert_eq!(light.len(), STYLES.len() + 5);
        Ok(())
    }

    #[test]
    fn grid_lines_are_few_and_round() {
        let text = |unit: Unit, least, most| -> Vec<String> {
            let ticks = unit.ticks(least, most).into_iter();
            ticks.map(|t| unit.text(t)).collect()
        };
        let gib = f64::from(1 << 30);
        assert_eq!(
            text(Unit::Bytes, 0.8, 32.0 * gib),
            [
                "1 B", "32 B", "1 KiB", "32 KiB", "1 MiB", "32 MiB", "1 GiB", "32 GiB"
            ]
        );
        assert_eq!(
            text(Unit::Count, 1.0, 1e3),
            ["1", "3", "10", "30", "100", "300", "1,000"]
        );
        assert_eq!(
            text(Unit::Seconds, 0.0004, 20.0),
            [
                "1 ms", "3 ms", "10 ms", "30 ms", "100 ms", "300 ms", "1 s", "3 s", "10 s"
            ]
        );
        assert_eq!(text(Unit::Ratio, 0.9, 2.2), ["1×", "1.5×", "2×"]);
        for unit in [Unit::Bytes, Unit::Count, Unit::Seconds, Unit::Ratio] {
            for decades in 1..12 {
                let found = unit.ticks(1.0, 10_f64.powi(decades)).len();
                assert!(
                    (2..=MAX_TICKS).contains(&found),
                    "{unit:?} {decades} {found}"
                );
            }
        }
    }

    #[test]
    fn nothing_gives_no_plot() -> Result<()> {
        let mut plot = plot();
        plot.curves.clear();
        assert_eq!(svg(&plot)?, None);
        // One point alone has axes around it.
        plot.curves = vec![Curve {
            name: "dmv".to_owned(),
            points: vec![(1.0, 1.0)],
            failures: Vec::new(),
        }];
        assert!(svg(&plot)?.is_some_and(|text| !text.contains("NaN")));
        Ok(())
    }
}
