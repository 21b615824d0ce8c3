//! Curves over sizes as an SVG: panels below each other, both axes logarithmic, each with a legend.

use crate::question::bytes_text;
use kolo::base::{Error, Result};
use std::fmt::Write;
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

/// Escapes the characters that mean something in XML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

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
/// Of a letter in the legend, on average.
const LETTER: f64 = 7.2;
/// Of a letter at an axis, mostly a digit.
const DIGIT: f64 = 8.2;

/// Colours that are told apart by most people, also side by side with their dash.
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#b15928",
    "#444444", "#e31a1c", "#1b7837", "#8c96c6",
];
const MARKS: [&str; 3] = ["circle", "square", "diamond"];

/// From values to places.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
    /// Where it begins: the longest label and the title stand side by side before it.
    left: f64,
    /// Right end.
    right: f64,
}

impl Axes {
    fn new(panel: &Panel, width: f64) -> Axes {
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
            right: width - RIGHT,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let part = (value.log2() - self.x.0) / (self.x.1 - self.x.0);
        self.left + part * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value.log10() - self.y.0) / (self.y.1 - self.y.0);
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    }
}

fn draw(title: &str, panels: &[Panel]) -> String {
    let names = panels.iter().flat_map(|panel| &panel.curves);
    let longest = names.map(|curve| curve.name.chars().count()).max();
    let width = WIDTH + (longest.unwrap_or(0) as f64 * LETTER + 60.0 - RIGHT).max(0.0);
    let right = width - WIDTH;
    let height = HEIGHT * panels.len() as f64;
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{TITLE}\" y=\"28\" font-size=\"18\" fill=\"#111\">{title}</text>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        let down = HEIGHT * index as f64;
        let _ = writeln!(svg, "<g transform=\"translate(0 {down})\">");
        one(&mut svg, panel, width - right);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn one(svg: &mut String, panel: &Panel, width: f64) {
    let axes = Axes::new(panel, width);
    grid(svg, &axes, panel);
    for (index, curve) in panel.curves.iter().enumerate() {
        line(svg, &axes, curve, index);
    }
    for &(size, value) in &panel.circles {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"7.5\" fill=\"none\" stroke=\"#111\" \
             stroke-width=\"1.5\"/>",
            axes.x(size),
            axes.y(value)
        );
    }
    legend(svg, panel, axes.right);
}

fn grid(svg: &mut String, axes: &Axes, panel: &Panel) {
    let (left, right) = (axes.left, axes.right);
    let (top, bottom) = (TOP, HEIGHT - BOTTOM);
    let every = (((axes.x.1 - axes.x.0) / 10.0).ceil() as i32).max(1);
    let mut power = axes.x.0.ceil() as i32;
    while f64::from(power) <= axes.x.1 {
        let x = axes.x(2f64.powi(power));
        let label = bytes_text(2f64.powi(power));
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#333\">{label}</text>",
            bottom + 20.0
        );
        power += every;
    }
    for decade in axes.y.0 as i32..=axes.y.1 as i32 {
        let y = axes.y(10f64.powi(decade));
        let label = (panel.label)(10f64.powi(decade));
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#bbb\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#333\">{label}</text>",
            left - GAP,
            y + 5.0
        );
        if decade == axes.y.1 as i32 {
            break;
        }
        for step in 2..10 {
            let y = axes.y(f64::from(step) * 10f64.powi(decade));
            let _ = writeln!(
                svg,
                "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" \
                 stroke=\"#eee\"/>"
            );
        }
    }
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" \
         stroke=\"#555\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#111\">size in bytes</text>\
         <text transform=\"translate({TITLE} {:.1}) rotate(-90)\" text-anchor=\"middle\" \
         fill=\"#111\">{}</text>",
        right - left,
        bottom - top,
        (left + right) / 2.0,
        HEIGHT - 16.0,
        (top + bottom) / 2.0,
        panel.values
    );
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Certain stretches are solid, others dashed.
fn line(svg: &mut String, axes: &Axes, curve: &Curve, index: usize) {
    let colour = colour(index);
    for pair in curve.points.windows(2) {
        let [from, to] = [pair[0], pair[1]];
        let dash = match from.2 && to.2 {
            true => "",
            false => " stroke-dasharray=\"5 4\"",
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"2\"{dash}/>",
            axes.x(from.0),
            axes.y(from.1),
            axes.x(to.0),
            axes.y(to.1)
        );
    }
    for &(size, ns, _) in &curve.points {
        mark(svg, (axes.x(size), axes.y(ns)), index);
    }
}

fn mark(svg: &mut String, (x, y): (f64, f64), index: usize) {
    let colour = colour(index);
    let _ = match MARKS[index % MARKS.len()] {
        "circle" => writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"
        ),
        "square" => writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\" fill=\"{colour}\"/>",
            x - 3.5,
            y - 3.5
        ),
        _ => writeln!(
            svg,
            "<path d=\"M {x:.1} {:.1} L {:.1} {y:.1} L {x:.1} {:.1} L {:.1} {y:.1} Z\" \
             fill=\"{colour}\"/>",
            y - 5.0,
            x + 5.0,
            y + 5.0,
            x - 5.0
        ),
    };
}

fn legend(svg: &mut String, panel: &Panel, right: f64) {
    let x = right + 18.0;
    let row = |row: usize| TOP + 12.0 + 24.0 * row as f64;
    for (index, curve) in panel.curves.iter().enumerate() {
        let y = row(index);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{}\" \
             stroke-width=\"2\"/>",
            x + 28.0,
            colour(index)
        );
        mark(svg, (x + 14.0, y), index);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#111\">{}</text>",
            x + 36.0,
            y + 5.0,
            escaped(&curve.name)
        );
    }
    let mut next = row(panel.curves.len()) + 8.0;
    if !panel.circles.is_empty() {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{next:.1}\" r=\"7.5\" fill=\"none\" stroke=\"#111\" \
             stroke-width=\"1.5\"/><text x=\"{:.1}\" y=\"{:.1}\" fill=\"#111\">chosen</text>",
            x + 14.0,
            x + 36.0,
            next + 5.0
        );
        next += 24.0;
    }
    let certain = |curve: &Curve| curve.points.iter().all(|point| point.2);
    if !panel.curves.iter().all(certain) {
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{next:.1}\" x2=\"{:.1}\" y2=\"{next:.1}\" stroke=\"#111\" \
             stroke-width=\"2\" stroke-dasharray=\"5 4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#111\">estimated</text>",
            x + 28.0,
            x + 36.0,
            next + 5.0
        );
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
