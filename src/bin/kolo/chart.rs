//! Curves over sizes as an SVG: panels below each other, both axes logarithmic, each with a legend.

use crate::canvas::{self, Anchor, Canvas, Frame, INK, PLAIN, Pen};
use crate::question::bytes_text;
use kolo::base::{Error, Result};
use std::path::Path;

/// One curve.
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// (size, value, whether the value is certain), by size.
    pub points: Vec<(f64, f64, bool)>,
}

/// One pair of axes.
pub struct Panel {
    /// Curves in it.
    pub curves: Vec<Curve>,
    /// (size, value) of points with a circle around them.
    pub circles: Vec<(f64, f64)>,
    /// Name of the values.
    pub values: &'static str,
    /// How a value is written at the axis.
    pub label: fn(f64) -> String,
}

/// Draws panels into a file.
///
/// # Errors
/// Nothing to draw, a file that cannot be written.
pub fn write(file: &Path, title: &str, panels: &[Panel]) -> Result<()> {
    let mut curves = panels.iter().flat_map(|panel| &panel.curves);
    if curves.all(|curve| curve.points.is_empty()) {
        return Err(Error::argument(
            format!("there is nothing to draw into {}", file.display()),
            "measure something that has sizes",
        ));
    }
    std::fs::write(file, draw(title, panels)).map_err(|error| {
        Error::system(
            format!("{} cannot be written", file.display()),
            &error,
            "name a file in a directory that you may write to",
        )
    })
}

/// Of axes and legend, where its names are short.
const WIDTH: f64 = 960.0;
/// Of one panel.
const HEIGHT: f64 = 600.0;
/// From the left edge to the foot of the axis' title, which stands upright there.
const TITLE: f64 = 24.0;
/// From the labels of the axis to the axis, and from its title to the labels.
const GAP: f64 = 14.0;
/// Room for the legend.
const RIGHT: f64 = 170.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 64.0;
/// Of a letter at an axis, mostly a digit.
const DIGIT: f64 = 8.2;

/// Colours that are told apart by most people, also side by side with their dash.
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#b15928",
    "#444444", "#e31a1c", "#1b7837", "#8c96c6",
];

/// Text of axes and legend.
const LABEL: Pen = Pen {
    size: 14.0,
    ..PLAIN
};

/// From values to places on the sheet.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
    /// Where it begins: the longest label and the title stand side by side before it.
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Axes {
    /// Axes of a panel that begins so far down.
    fn new(panel: &Panel, down: f64) -> Axes {
        let points = || panel.curves.iter().flat_map(|curve| &curve.points);
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let x = range(&mut points().map(|point| point.0.log2()));
        let y = range(&mut points().map(|point| point.1.log10()));
        let y = (y.0.floor(), y.1.ceil().max(y.0.floor() + 1.0));
        let decades = y.0 as i32..=y.1 as i32;
        let labels = decades.map(|decade| (panel.label)(10f64.powi(decade)).chars().count());
        let longest = labels.max().unwrap_or(0) as f64 * DIGIT;
        Axes {
            x: (x.0, x.1.max(x.0 + 1.0)),
            y,
            left: TITLE + GAP + longest + GAP,
            right: WIDTH - RIGHT,
            top: down + TOP,
            bottom: down + HEIGHT - BOTTOM,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let part = (value.log2() - self.x.0) / (self.x.1 - self.x.0);
        self.left + part * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value.log10() - self.y.0) / (self.y.1 - self.y.0);
        self.bottom - part * (self.bottom - self.top)
    }
}

fn draw(title: &str, panels: &[Panel]) -> String {
    let mut canvas = Canvas::default();
    let heading = Pen {
        size: 18.0,
        ..PLAIN
    };
    canvas.text(TITLE, 28.0, title, heading);
    for (index, panel) in panels.iter().enumerate() {
        let axes = Axes::new(panel, HEIGHT * index as f64);
        grid(&mut canvas, &axes, panel);
        for (index, curve) in panel.curves.iter().enumerate() {
            line(&mut canvas, &axes, curve, index);
        }
        for &(size, value) in &panel.circles {
            canvas.dot(axes.x(size), axes.y(value), 7.5, "none", INK);
        }
        legend(&mut canvas, panel, &axes);
    }
    canvas.finish(title)
}

fn grid(canvas: &mut Canvas, axes: &Axes, panel: &Panel) {
    let Axes {
        left,
        right,
        top,
        bottom,
        ..
    } = *axes;
    let [centred, before] = [Anchor::Middle, Anchor::End].map(|anchor| Pen { anchor, ..LABEL });
    let every = (((axes.x.1 - axes.x.0) / 10.0).ceil() as i32).max(1);
    let mut power = axes.x.0.ceil() as i32;
    while f64::from(power) <= axes.x.1 {
        let x = axes.x(2f64.powi(power));
        canvas.line((x, top), (x, bottom), "#dddddd", 1.0);
        canvas.text(x, bottom + 20.0, &bytes_text(2f64.powi(power)), centred);
        power += every;
    }
    for decade in axes.y.0 as i32..=axes.y.1 as i32 {
        let y = axes.y(10f64.powi(decade));
        canvas.line((left, y), (right, y), "#bbbbbb", 1.0);
        canvas.text(
            left - GAP,
            y + 5.0,
            &(panel.label)(10f64.powi(decade)),
            before,
        );
        if decade == axes.y.1 as i32 {
            break;
        }
        for step in 2..10 {
            let y = axes.y(f64::from(step) * 10f64.powi(decade));
            canvas.line((left, y), (right, y), "#eeeeee", 1.0);
        }
    }
    let frame = Frame {
        x: left,
        y: top,
        width: right - left,
        height: bottom - top,
    };
    canvas.rect(frame, canvas::plain("none", "#555555", 0.0));
    canvas.text(
        (left + right) / 2.0,
        bottom + BOTTOM - 16.0,
        "size in bytes",
        centred,
    );
    canvas.upright(TITLE, (top + bottom) / 2.0, panel.values, centred);
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Certain stretches are solid, others dashed.
fn line(canvas: &mut Canvas, axes: &Axes, curve: &Curve, index: usize) {
    let place = |point: &(f64, f64, bool)| (axes.x(point.0), axes.y(point.1));
    for pair in curve.points.windows(2) {
        let (from, to) = (place(&pair[0]), place(&pair[1]));
        if pair[0].2 && pair[1].2 {
            canvas.line(from, to, colour(index), 2.0);
        } else {
            canvas.dashed(&[from, to], colour(index), 2.0);
        }
    }
    for point in &curve.points {
        mark(canvas, place(point), index);
    }
}

/// A circle, a square or a diamond.
fn mark(canvas: &mut Canvas, (x, y): (f64, f64), index: usize) {
    let colour = colour(index);
    match index % 3 {
        0 => canvas.dot(x, y, 3.5, colour, colour),
        1 => {
            let (left, right, top, bottom) = (x - 3.5, x + 3.5, y - 3.5, y + 3.5);
            let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
            canvas.filled(&corners, colour);
        }
        _ => canvas.filled(
            &[(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)],
            colour,
        ),
    }
}

fn legend(canvas: &mut Canvas, panel: &Panel, axes: &Axes) {
    let x = axes.right + 18.0;
    let mut y = axes.top + 12.0;
    for (index, curve) in panel.curves.iter().enumerate() {
        canvas.line((x, y), (x + 28.0, y), colour(index), 2.0);
        mark(canvas, (x + 14.0, y), index);
        canvas.text(x + 36.0, y + 5.0, &curve.name, LABEL);
        y += 24.0;
    }
    y += 8.0;
    if !panel.circles.is_empty() {
        canvas.dot(x + 14.0, y, 7.5, "none", INK);
        canvas.text(x + 36.0, y + 5.0, "chosen", LABEL);
        y += 24.0;
    }
    let certain = |curve: &Curve| curve.points.iter().all(|point| point.2);
    if !panel.curves.iter().all(certain) {
        canvas.dashed(&[(x, y), (x + 28.0, y)], INK, 2.0);
        canvas.text(x + 36.0, y + 5.0, "estimated", LABEL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of the upright title and of the labels beside it, as an SVG has them.
    fn places(svg: &str) -> (f64, Vec<(f64, String)>) {
        let document = roxmltree::Document::parse(svg).expect("an SVG");
        let texts = document.descendants().filter(|it| it.has_tag_name("text"));
        let (mut title, mut labels) = (f64::NAN, Vec::new());
        for text in texts {
            if let Some(turned) = text.attribute("transform") {
                let at = turned.trim_start_matches("translate(").split(' ').next();
                title = at.and_then(|at| at.parse().ok()).unwrap_or(f64::NAN);
            } else if text.attribute("text-anchor") == Some("end") {
                let x: f64 = text.attribute("x").unwrap().parse().unwrap();
                labels.push((x, text.text().unwrap_or_default().to_owned()));
            }
        }
        (title, labels)
    }

    /// A digit of this font is 0.56 of its size wide, and its letters reach 4 below their line.
    #[test]
    fn the_title_of_an_axis_keeps_clear_of_its_labels() {
        for most in [1e2, 1e5, 1e9] {
            let curve = Curve {
                name: "ring".into(),
                points: vec![(8.0, 0.001, true), (64.0, most, true)],
            };
            let panel = Panel {
                curves: vec![curve],
                circles: Vec::new(),
                values: "time, us",
                label: |value| format!("{value}"),
            };
            let (title, labels) = places(&draw("a title", &[panel]));
            assert!(labels.len() > 4, "{labels:?}");
            for (end, text) in labels {
                let begin = end - 0.56 * 14.0 * text.chars().count() as f64;
                assert!(
                    begin > title + 4.0,
                    "{text} begins at {begin}, the title ends at {title}"
                );
            }
        }
    }

    #[test]
    fn names_from_files_do_not_end_the_picture() {
        let curve = |name: &str| Curve {
            name: name.to_string(),
            points: vec![(8.0, 10.0, true), (64.0, 1000.0, true)],
        };
        let panel = Panel {
            curves: vec![curve("<a & \"b\">"), curve("plain")],
            circles: Vec::new(),
            values: "time",
            label: |value| format!("{value}"),
        };
        let svg = draw("a < b", &[panel]);
        let document = roxmltree::Document::parse(&svg).expect("an SVG");
        let texts: Vec<_> = document
            .descendants()
            .filter_map(|node| node.text())
            .collect();
        for text in ["a < b", "<a & \"b\">", "plain", "time", "10", "1000"] {
            assert!(texts.contains(&text), "{text}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
