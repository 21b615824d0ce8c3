//! `kolo sim --plot`: time against size for several algorithms, as an SVG with logarithmic axes.

use crate::out;
use crate::question::{Question, bytes_text, time_text};
use kolo::base::{Error, Result};
use kolo::plan::{Collective, Nodes};
use kolo::tune::{self, Choice, Table};
use std::fmt::Write;
use std::path::Path;

/// Simulations of more steps than this are left to the closed form.
const MOST_STEPS: f64 = 3e6;

/// One algorithm's curve.
struct Curve {
    name: &'static str,
    /// (size, nanoseconds, simulated)
    points: Vec<(f64, f64, bool)>,
}

/// Draws, and says what was drawn.
///
/// # Errors
/// A collective without sizes, a file that cannot be written.
pub fn run(
    question: &Question,
    collective: Collective,
    table: &Table,
    file: &Path,
    most: u64,
) -> Result<()> {
    if question.collective.sizeless {
        return Err(Error::argument(
            format!("{} has no size to draw", collective.name()),
            "use kolo sim without --plot",
        ));
    }
    let nodes = question.nodes();
    let least = (question.machine().nranks() as u64 * question.dtype.size_bytes() as u64)
        .next_power_of_two();
    let least = match question.bytes() as u64 == question.size {
        // A size is that of all data, however many ranks there are.
        true => question.dtype.size_bytes() as u64,
        false => least,
    };
    let sizes: Vec<u64> = std::iter::successors(Some(least), |size| size.checked_mul(2))
        .take_while(|&size| size <= most.max(least * 16))
        .collect();
    let mut curves: Vec<Curve> = Vec::new();
    let mut chosen = Vec::new();
    for &size in &sizes {
        let question = question.sized(size);
        let bytes = question.bytes();
        let mut drawn = Vec::new();
        for candidate in table.candidates(collective, bytes) {
            let name = candidate.choice.algorithm.name();
            // Candidates come fastest first: an algorithm is drawn over its best protocol.
            if drawn.contains(&name) {
                continue;
            }
            drawn.push(name);
            let Some(point) = point(&question, collective, &candidate.choice, table, &nodes) else {
                continue;
            };
            let point = (size as f64, point.0, point.1);
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    name,
                    points: vec![point],
                }),
            }
            if candidate.choice.algorithm == table.choose(collective, bytes).algorithm {
                chosen.push((size as f64, point.1));
            }
        }
    }
    curves.sort_by_key(|curve| curve.name);
    let title = question.sized(sizes[0]).text(collective);
    let title = title.split(" of ").next().unwrap_or(&title).to_string();
    let place = question.text(collective);
    let place = place.rsplit(" on ").next().unwrap_or_default();
    let svg = draw(&format!("{title} on {place}"), &curves, &chosen);
    std::fs::write(file, svg).map_err(|error| {
        Error::system(
            format!("{} cannot be written", file.display()),
            &error,
            "name a file in a directory that you may write to",
        )
    })?;
    let names: Vec<&str> = curves.iter().map(|curve| curve.name).collect();
    out::line(&format!("{}: {}", file.display(), names.join(", ")));
    Ok(())
}

/// The simulated time, or the estimated one where simulating takes long.
fn point(
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
    nodes: &Nodes,
) -> Option<(f64, bool)> {
    let n = question.machine().nranks();
    let job = question.job(collective, choice, table);
    let steps = |rank: u32| {
        let plan = question.plan(collective, choice, rank, nodes).ok()?;
        let (rounds, slices) = question.rounds(&plan, &job);
        Some(plan.steps_per_round() as f64 * rounds as f64 * f64::from(slices))
    };
    let expected = steps(n / 2)? * f64::from(n);
    if expected <= MOST_STEPS {
        let report = question.simulate(collective, choice, table, nodes).ok()?;
        return Some((report.time_ns, true));
    }
    let setting = &table.inputs().setting;
    let (bytes, channels) = (question.bytes(), choice.channels);
    let way = (choice.algorithm, choice.protocol);
    tune::predict(collective, way, bytes, channels, setting).map(|ns| (ns, false))
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 600.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 64.0;

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
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        let part = (value.log2() - self.x.0) / (self.x.1 - self.x.0);
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value.log10() - self.y.0) / (self.y.1 - self.y.0);
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    }
}

fn draw(title: &str, curves: &[Curve], chosen: &[(f64, f64)]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let x = range(&mut points().map(|point| point.0.log2()));
    let y = range(&mut points().map(|point| point.1.log10()));
    let axes = Axes {
        x: (x.0, x.1.max(x.0 + 1.0)),
        y: (y.0.floor(), y.1.ceil().max(y.0.floor() + 1.0)),
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"18\" fill=\"#111\">{title}</text>\n"
    );
    grid(&mut svg, &axes);
    for (index, curve) in curves.iter().enumerate() {
        line(&mut svg, &axes, curve, index);
    }
    for &(size, ns) in chosen {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"7.5\" fill=\"none\" stroke=\"#111\" \
             stroke-width=\"1.5\"/>",
            axes.x(size),
            axes.y(ns)
        );
    }
    legend(&mut svg, curves);
    svg.push_str("</svg>\n");
    svg
}

fn grid(svg: &mut String, axes: &Axes) {
    let (left, right) = (LEFT, WIDTH - RIGHT);
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
        let label = time_text(10f64.powi(decade))
            .replace(".00", "")
            .replace(".0", "");
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#bbb\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#333\">{label}</text>",
            left - 14.0,
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
         <text transform=\"translate(24 {:.1}) rotate(-90)\" text-anchor=\"middle\" \
         fill=\"#111\">time</text>",
        right - left,
        bottom - top,
        (left + right) / 2.0,
        HEIGHT - 16.0,
        (top + bottom) / 2.0
    );
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Simulated stretches are solid, estimated ones dashed.
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

fn legend(svg: &mut String, curves: &[Curve]) {
    let x = WIDTH - RIGHT + 18.0;
    let row = |row: usize| TOP + 12.0 + 24.0 * row as f64;
    for (index, curve) in curves.iter().enumerate() {
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
            curve.name
        );
    }
    let y = row(curves.len()) + 8.0;
    let _ = writeln!(
        svg,
        "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"7.5\" fill=\"none\" stroke=\"#111\" \
         stroke-width=\"1.5\"/><text x=\"{:.1}\" y=\"{:.1}\" fill=\"#111\">chosen</text>",
        x + 14.0,
        x + 36.0,
        y + 5.0
    );
    if curves
        .iter()
        .any(|curve| curve.points.iter().any(|point| !point.2))
    {
        let y = y + 24.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#111\" \
             stroke-width=\"2\" stroke-dasharray=\"5 4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#111\">estimated</text>",
            x + 28.0,
            x + 36.0,
            y + 5.0
        );
    }
}
