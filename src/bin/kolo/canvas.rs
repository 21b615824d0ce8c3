//! A sheet of paper: boxes, lines and text, written as SVG.
//!
//! Only what every viewer shows alike is used: no style sheets, scripts or fonts of its own.
//! Lengths are pixels; one length knows the width of text well enough to keep it inside its box.

use std::fmt::Write;

/// Colours of channels, apart from each other for most eyes; they repeat after the last.
const CHANNELS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#aa3377", "#b8860b", "#56a3d9", "#882255", "#44aa99",
    "#cc3311", "#6a51a3", "#5a6e00", "#666666",
];

/// The colour of a channel (its part, before the doubling).
pub(crate) fn colour(part: usize) -> &'static str {
    CHANNELS[part % CHANNELS.len()]
}

/// Where text stands relative to its point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How text looks.
#[derive(Clone, Copy)]
pub(crate) struct Pen<'a> {
    pub(crate) size: f64,
    pub(crate) colour: &'a str,
    pub(crate) bold: bool,
    pub(crate) anchor: Anchor,
}

/// Plain dark text that begins at its point.
pub(crate) const PLAIN: Pen = Pen {
    size: 12.,
    colour: INK,
    bold: false,
    anchor: Anchor::Start,
};

/// Dark, for text and outlines.
pub(crate) const INK: &str = "#222222";
/// Grey, for what is said aside.
pub(crate) const ASIDE: &str = "#666666";

/// A box.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Frame {
    pub(crate) fn middle(&self) -> (f64, f64) {
        (self.x + self.width / 2., self.y + self.height / 2.)
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }

    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }
}

/// The sheet while it is drawn.
#[derive(Default)]
pub(crate) struct Canvas {
    body: String,
    /// How far to the right something was drawn.
    right: f64,
    /// How far down.
    bottom: f64,
}

impl Canvas {
    fn reach(&mut self, x: f64, y: f64) {
        self.right = self.right.max(x);
        self.bottom = self.bottom.max(y);
    }

    /// The document. `title` is what a viewer calls it.
    pub(crate) fn finish(self, title: &str) -> String {
        let (width, height) = (self.right.ceil() + 24., self.bottom.ceil() + 24.);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             <title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escaped(title),
            self.body
        )
    }

    pub(crate) fn rect(&mut self, frame: Frame, look: Look) {
        let Frame { x, y, .. } = frame;
        let dash = if look.dashed {
            " stroke-dasharray=\"3 2\""
        } else {
            ""
        };
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
             fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"{dash}/>",
            frame.width, frame.height, look.fill, look.stroke, look.width
        );
        self.reach(frame.right(), frame.bottom());
    }

    pub(crate) fn dot(&mut self, x: f64, y: f64, radius: f64, fill: &str, stroke: &str) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{fill}\" \
             stroke=\"{stroke}\"/>"
        );
        self.reach(x + radius, y + radius);
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        self.path(
            &format!("M{:.1} {:.1}L{:.1} {:.1}", from.0, from.1, to.0, to.1),
            stroke,
            width,
        );
        self.reach(from.0.max(to.0), from.1.max(to.1));
    }

    /// Straight pieces from point to point.
    pub(crate) fn bent(&mut self, points: &[(f64, f64)], stroke: &str, width: f64) {
        let data = self.pieces(points);
        self.path(&data, stroke, width);
    }

    /// Straight pieces from point to point, dashed.
    pub(crate) fn dashed(&mut self, points: &[(f64, f64)], stroke: &str, width: f64) {
        let data = self.pieces(points);
        let _ = writeln!(
            self.body,
            "<path d=\"{data}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width:.1}\" \
             stroke-dasharray=\"5 4\"/>"
        );
    }

    /// Path data of straight pieces.
    fn pieces(&mut self, points: &[(f64, f64)]) -> String {
        let mut data = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let _ = write!(data, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
            self.reach(*x, *y);
        }
        data
    }

    /// A curve given as path data; its reach is the caller's to know.
    pub(crate) fn path(&mut self, data: &str, stroke: &str, width: f64) {
        let _ = writeln!(
            self.body,
            "<path d=\"{data}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width:.1}\"/>"
        );
    }

    /// A line with a head at its end.
    pub(crate) fn arrow(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(0.001);
        let (ux, uy) = (dx / length, dy / length);
        let head = (4. + width).min(length);
        let base = (to.0 - ux * head, to.1 - uy * head);
        self.line(from, base, stroke, width);
        let half = head * 0.55;
        let left = (base.0 - uy * half, base.1 + ux * half);
        let right = (base.0 + uy * half, base.1 - ux * half);
        self.filled(&[to, left, right], stroke);
    }

    /// A polygon without an outline.
    pub(crate) fn filled(&mut self, points: &[(f64, f64)], fill: &str) {
        let data = self.pieces(points);
        let _ = writeln!(self.body, "<path d=\"{data}Z\" fill=\"{fill}\"/>");
    }

    /// Text whose baseline is at `y`.
    pub(crate) fn text(&mut self, x: f64, y: f64, text: &str, pen: Pen) {
        self.write(&format!("x=\"{x:.1}\" y=\"{y:.1}\""), text, pen);
        let width = text_width(text, pen.size);
        let right = match pen.anchor {
            Anchor::Start => x + width,
            Anchor::Middle => x + width / 2.,
            Anchor::End => x,
        };
        self.reach(right, y + pen.size / 4.);
    }

    /// Text that is read from below upwards, with its baseline at `x`.
    pub(crate) fn upright(&mut self, x: f64, y: f64, text: &str, pen: Pen) {
        let place = format!("transform=\"translate({x:.1} {y:.1}) rotate(-90)\"");
        self.write(&place, text, pen);
    }

    fn write(&mut self, place: &str, text: &str, pen: Pen) {
        let anchor = match pen.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if pen.bold {
            " font-weight=\"bold\""
        } else {
            ""
        };
        let _ = writeln!(
            self.body,
            "<text {place} font-size=\"{}\" fill=\"{}\" \
             text-anchor=\"{anchor}\"{weight}>{}</text>",
            pen.size,
            pen.colour,
            escaped(text)
        );
    }

    /// A box with text in its middle, in the largest size up to `size` in which it fits.
    pub(crate) fn labelled(&mut self, frame: Frame, text: &str, look: Look) {
        self.rect(frame, look);
        let fitting = (frame.width - 3.) / text_width(text, 1.).max(0.001);
        let pen = Pen {
            size: (fitting.min(look.size) * 2.).floor() / 2.,
            colour: look.ink,
            bold: look.bold,
            anchor: Anchor::Middle,
        };
        // Smaller text is no longer text.
        if pen.size >= 6. {
            let (x, y) = frame.middle();
            self.text(x, y + pen.size * 0.35, text, pen);
        }
    }
}

/// How a box looks.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) fill: &'a str,
    pub(crate) stroke: &'a str,
    pub(crate) width: f64,
    pub(crate) ink: &'a str,
    pub(crate) size: f64,
    pub(crate) bold: bool,
    /// Whether the outline is dashed.
    pub(crate) dashed: bool,
}

/// A plain box in the colours of a fill and an outline.
pub(crate) fn plain<'a>(fill: &'a str, stroke: &'a str, size: f64) -> Look<'a> {
    Look {
        fill,
        stroke,
        width: 1.2,
        ink: INK,
        size,
        bold: false,
        dashed: false,
    }
}

/// As wide as text of this size is in a wide font; most are narrower.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let width = |c: char| match c {
        'i' | 'l' | 'j' | '.' | ',' | ':' | '|' | ' ' | '/' | 't' | 'f' | '(' | ')' => 0.38,
        'M' | 'W' | 'm' | 'w' => 0.92,
        c if c.is_ascii_uppercase() => 0.7,
        _ => 0.61,
    };
    text.chars().map(width).sum::<f64>() * size
}

/// Text cut so that it is not wider than this.
pub(crate) fn shortened(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if text_width(&short, size) + size > width {
            break;
        }
    }
    short + "…"
}

/// Text as it may stand between tags: control characters are no XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
