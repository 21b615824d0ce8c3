//! Measured times of a site, as `kolo tune` writes them and communicators read them.
//!
//! The file is TOML. Each `[[series]]` holds the times of one algorithm for one collective on one
//! arrangement of ranks; a communicator uses those of its own arrangement. `[costs]` is for
//! communicators of other arrangements: it says how many times the built-in latency and time of a
//! byte were measured here, fitted to all series.

use super::ProtocolChoice;
use super::predict::{Setting, predict};
use crate::base::{Error, Result};
use crate::plan::{Algorithm, Collective};
use crate::price::Costs;
use std::fmt::Write;

/// Files are no larger than this.
pub const MOST_BYTES: usize = 4 << 20;
/// The format that this version writes and reads.
const FORMAT: i64 = 1;

/// Times of one algorithm on one arrangement of ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The collective.
    pub collective: Collective,
    /// How.
    pub algorithm: Algorithm,
    /// How its tokens were handed over.
    pub protocol: ProtocolChoice,
    /// With how many channels.
    pub channels: u16,
    /// Nodes.
    pub nodes: u32,
    /// Ranks of a node (the most of any).
    pub per_node: u32,
    /// (bytes of the call's count, nanoseconds), sizes ascending.
    pub points: Vec<(usize, f64)>,
}

impl Series {
    fn is_of(&self, other: &Series) -> bool {
        self.is_about(other.collective, (other.algorithm, other.protocol))
            && self.channels == other.channels
            && (self.nodes, self.per_node) == (other.nodes, other.per_node)
    }

    fn is_about(&self, collective: Collective, way: (Algorithm, ProtocolChoice)) -> bool {
        (self.collective, self.algorithm, self.protocol) == (collective, way.0, way.1)
    }

    /// The time of `bytes`: between two sizes, as a power of the size; above the last one, in
    /// proportion to it; below the first, its own.
    fn time_ns(&self, bytes: usize) -> Option<f64> {
        let after = self.points.partition_point(|&(size, _)| size < bytes);
        let Some(&(high, high_ns)) = self.points.get(after) else {
            let &(last, last_ns) = self.points.last()?;
            return Some(last_ns * bytes as f64 / last.max(1) as f64);
        };
        if after == 0 || high == bytes {
            return Some(high_ns);
        }
        let (low, low_ns) = self.points[after - 1];
        let whole = (high as f64 / low.max(1) as f64).ln();
        let part = (bytes as f64 / low.max(1) as f64).ln() / whole;
        Some(low_ns * (high_ns / low_ns).powf(part))
    }
}

/// How much dearer than built in this site is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Factor of the time that a hand-over takes whatever its size.
    pub latency: f64,
    /// Factor of the time of a byte.
    pub bytes: f64,
}

impl Default for Factors {
    fn default() -> Factors {
        Factors {
            latency: 1.0,
            bytes: 1.0,
        }
    }
}

impl Factors {
    /// The built-in costs, scaled.
    pub fn costs(&self, base: &Costs) -> Costs {
        let mut costs = *base;
        for level in &mut costs.levels {
            level.latency_ns *= self.latency;
            level.overhead_ns *= self.latency;
            level.gap_ns *= self.latency;
            level.byte_ns *= self.bytes;
            level.carry_ns *= self.bytes;
        }
        for cost in [&mut costs.step_ns, &mut costs.call_ns, &mut costs.switch_ns] {
            *cost *= self.latency;
        }
        for lines in &mut costs.lines {
            lines.overhead_ns *= self.latency;
            lines.copy_ns *= self.bytes;
        }
        let rates = [
            &mut costs.read_ns,
            &mut costs.write_ns,
            &mut costs.fold_ns,
            &mut costs.memory_ns,
            &mut costs.cache_link_ns,
            &mut costs.cross_ns,
        ];
        for rate in rates {
            *rate *= self.bytes;
        }
        costs
    }
}

/// A machine, as far as times that were measured on one say nothing of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedOn {
    /// The name of its processor.
    pub processor: String,
    /// How many CPUs a node has.
    pub cpus: u32,
}

/// All that was measured on a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Where; files of earlier versions do not say.
    pub machine: Option<TunedOn>,
    /// One per algorithm, collective, channels and arrangement.
    pub series: Vec<Series>,
    /// Fitted to them.
    pub factors: Factors,
}

impl Measured {
    /// Only what was measured on this arrangement of ranks, for a communicator.
    pub fn of_arrangement(&self, nodes: u32, per_node: u32) -> Measured {
        let here = |series: &&Series| (series.nodes, series.per_node) == (nodes, per_node);
        Measured {
            series: self.series.iter().filter(here).cloned().collect(),
            factors: self.factors,
            machine: self.machine.clone(),
        }
    }

    /// The least measured time of an algorithm over a protocol, and its channels.
    pub fn time_ns(
        &self,
        collective: Collective,
        way: (Algorithm, ProtocolChoice),
        bytes: usize,
    ) -> Option<(f64, u16)> {
        let of = self.series.iter();
        let times = of.filter(|series| series.is_about(collective, way));
        let times = times.filter_map(|series| Some((series.time_ns(bytes)?, series.channels)));
        times.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Whether the algorithm was measured, over whatever protocol.
    pub fn knows(&self, collective: Collective, algorithm: Algorithm) -> bool {
        let mut protocols = ProtocolChoice::ALL.into_iter();
        protocols.any(|over| self.time_ns(collective, (algorithm, over), 1).is_some())
    }

    /// Adds a point, in place of one of the same size.
    pub fn add(&mut self, mut series: Series, bytes: usize, time_ns: f64) {
        series.points.clear();
        let index = match self.series.iter().position(|known| known.is_of(&series)) {
            Some(index) => index,
            None => {
                self.series.push(series);
                self.series.len() - 1
            }
        };
        let points = &mut self.series[index].points;
        match points.binary_search_by_key(&bytes, |&(size, _)| size) {
            Ok(at) => points[at].1 = time_ns,
            Err(at) => points.insert(at, (bytes, time_ns)),
        }
    }

    /// Whether this point is there already.
    pub fn has(&self, series: &Series, bytes: usize) -> bool {
        let known = self.series.iter().find(|known| known.is_of(series));
        known.is_some_and(|known| known.points.iter().any(|&(size, _)| size == bytes))
    }

    /// Finds the factors with which the model comes nearest to all points: by turns for latency and
    /// bytes, the mean square of the logarithm of measured over predicted time becomes least.
    pub fn fit(&mut self, setting_of: impl Fn(&Series) -> Setting) {
        let error = |factors: &Factors| {
            let mut sum = 0.0;
            for series in &self.series {
                let mut setting = setting_of(series);
                setting.costs = factors.costs(&setting.costs);
                for &(bytes, time_ns) in &series.points {
                    let way = (series.algorithm, series.protocol);
                    let (collective, channels) = (series.collective, series.channels);
                    let predicted = predict(collective, way, bytes, channels, &setting);
                    if let Some(predicted) = predicted.filter(|p| *p > 0.0 && time_ns > 0.0) {
                        sum += (time_ns / predicted).ln().powi(2);
                    }
                }
            }
            sum
        };
        let mut best = Factors::default();
        let mut least = error(&best);
        let mut width: f64 = 2.0;
        while width > 1.01 {
            let mut moved = false;
            for by in [width, 1.0 / width] {
                let latency = Factors {
                    latency: (best.latency * by).clamp(0.01, 1000.0),
                    ..best
                };
                let bytes = Factors {
                    bytes: (best.bytes * by).clamp(0.01, 1000.0),
                    ..best
                };
                for tried in [latency, bytes] {
                    let off = error(&tried);
                    if off < least {
                        (best, least, moved) = (tried, off, true);
                    }
                }
            }
            if !moved {
                width = width.sqrt();
            }
        }
        self.factors = best;
    }

    /// The file.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Measured times of kolo's algorithms, written by `kolo tune`; `docs/tuning.md` says \
             how they are\n# used. Sizes in bytes, times in microseconds.\n",
        );
        let _ = write!(text, "format = {FORMAT}\n\n[costs]\n");
        let _ = writeln!(text, "latency = {:?}", self.factors.latency);
        let _ = writeln!(text, "bytes = {:?}", self.factors.bytes);
        if let Some(machine) = &self.machine {
            let processor = toml::Value::from(machine.processor.as_str());
            let _ = write!(text, "\n[machine]\nprocessor = {processor}\n");
            let _ = writeln!(text, "cpus = {}", machine.cpus);
        }
        for series in &self.series {
            let _ = write!(
                text,
                "\n[[series]]\ncollective = \"{}\"\nalgorithm = \"{}\"\nprotocol = \"{}\"\n\
                 channels = {}\nnodes = {}\nranks_per_node = {}\nsizes = [",
                series.collective.name(),
                series.algorithm.name(),
                series.protocol.name(),
                series.channels,
                series.nodes,
                series.per_node
            );
            let list = |items: Vec<String>| items.join(", ");
            let sizes = series.points.iter().map(|(size, _)| size.to_string());
            text.push_str(&list(sizes.collect()));
            text.push_str("]\ntimes_us = [");
            let times = series
                .points
                .iter()
                .map(|(_, ns)| format!("{:?}", ns / 1e3));
            text.push_str(&list(times.collect()));
            text.push_str("]\n");
        }
        text
    }

    /// Reads a file's text. `name` stands in messages.
    ///
    /// # Errors
    /// `InvalidUsage` that names the file, the series and the entry that cannot be used.
    pub fn from_toml(text: &str, name: &str) -> Result<Measured> {
        read::file(text).map_err(|fault| {
            Error::usage(
                format!("the measured times in {name} cannot be used: {fault}"),
                "write the file anew with `kolo tune`, or unset KOLO_TUNER_FILE",
            )
        })
    }
}

/// Reading: everything that a file says is an allegation.
mod read {
    use super::{FORMAT, Factors, MOST_BYTES, Measured, ProtocolChoice, Series, TunedOn};
    use crate::algo::REGISTRY;
    use crate::plan::Collective;
    use toml::{Table, Value};

    type Fault = String;

    pub fn file(text: &str) -> Result<Measured, Fault> {
        if text.len() > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| error.message().to_string())?;
        known(
            &table,
            &["format", "costs", "machine", "series"],
            "the file",
        )?;
        match table.get("format").and_then(Value::as_integer) {
            Some(FORMAT) => (),
            other => return Err(format!("`format` is {other:?}, expected was {FORMAT}")),
        }
        let factors = match table.get("costs") {
            None => Factors::default(),
            Some(costs) => {
                let costs = costs.as_table().ok_or("`costs` is no table")?;
                known(costs, &["latency", "bytes"], "`costs`")?;
                Factors {
                    latency: factor(costs, "latency")?,
                    bytes: factor(costs, "bytes")?,
                }
            }
        };
        let machine = table.get("machine").map(machine).transpose()?;
        let list = match table.get("series") {
            None => &Vec::new(),
            Some(list) => list.as_array().ok_or("`series` is no list")?,
        };
        let read = |(number, entry): (usize, &Value)| {
            series(entry).map_err(|fault| format!("series {}: {fault}", number + 1))
        };
        let series = list.iter().enumerate().map(read);
        Ok(Measured {
            // What another version knows and this one does not is left out.
            series: series
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .flatten()
                .collect(),
            factors,
            machine,
        })
    }

    fn machine(value: &Value) -> Result<TunedOn, Fault> {
        let table = value.as_table().ok_or("`machine` is no table")?;
        known(table, &["processor", "cpus"], "`machine`")?;
        let processor = table.get("processor").and_then(Value::as_str);
        Ok(TunedOn {
            processor: processor
                .ok_or("`processor` of `machine` is no text")?
                .to_string(),
            cpus: whole(table, "cpus", i64::from(u32::MAX))?,
        })
    }

    fn known(table: &Table, keys: &[&str], place: &str) -> Result<(), Fault> {
        match table.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(format!(
                "{place} has an unknown entry `{key}`; it may have {}",
                keys.join(", ")
            )),
            None => Ok(()),
        }
    }

    fn number(value: Option<&Value>) -> Option<f64> {
        let value = value?;
        let whole = value.as_integer().map(|whole| whole as f64);
        value.as_float().or(whole).filter(|x| x.is_finite())
    }

    fn factor(table: &Table, key: &str) -> Result<f64, Fault> {
        let factor = number(table.get(key)).filter(|factor| (1e-6..=1e6).contains(factor));
        factor.ok_or_else(|| format!("`{key}` of `costs` is no number from 1e-6 to 1e6"))
    }

    fn whole(table: &Table, key: &str, most: i64) -> Result<u32, Fault> {
        let value = table.get(key).and_then(Value::as_integer);
        let value = value.filter(|value| (1..=most).contains(value));
        value
            .map(|value| value as u32)
            .ok_or_else(|| format!("`{key}` is no integer from 1 to {most}"))
    }

    fn series(value: &Value) -> Result<Option<Series>, Fault> {
        let table = value.as_table().ok_or("it is no table")?;
        let keys = [
            "collective",
            "algorithm",
            "protocol",
            "channels",
            "nodes",
            "ranks_per_node",
            "sizes",
            "times_us",
        ];
        known(table, &keys, "it")?;
        let word = |key: &str| {
            let word = table.get(key).and_then(Value::as_str);
            word.ok_or_else(|| format!("`{key}` is missing or no text"))
        };
        let (collective, algorithm) = (word("collective")?, word("algorithm")?);
        let collective = Collective::ALL
            .into_iter()
            .find(|known| known.name() == collective);
        let entry = REGISTRY.iter().find(|entry| {
            entry.algorithm.name() == algorithm && Some(entry.collective) == collective
        });
        // Files of earlier versions have none: they know the usual ones.
        let protocol = match table.get("protocol") {
            None => entry.map(|entry| ProtocolChoice::of(entry.collective, entry.algorithm)),
            Some(_) => {
                let wanted = word("protocol")?;
                let mut known = ProtocolChoice::ALL.into_iter();
                known.find(|protocol| protocol.name() == wanted)
            }
        };
        let points = points(table)?;
        let channels = whole(table, "channels", 1024)? as u16;
        let nodes = whole(table, "nodes", i64::from(u32::MAX))?;
        let per_node = whole(table, "ranks_per_node", i64::from(u32::MAX))?;
        Ok(entry.zip(protocol).map(|(entry, protocol)| Series {
            collective: entry.collective,
            algorithm: entry.algorithm,
            protocol,
            channels,
            nodes,
            per_node,
            points,
        }))
    }

    fn points(table: &Table) -> Result<Vec<(usize, f64)>, Fault> {
        let list = |key: &str| {
            let list = table.get(key).and_then(Value::as_array);
            list.ok_or_else(|| format!("`{key}` is missing or no list"))
        };
        let (sizes, times) = (list("sizes")?, list("times_us")?);
        if sizes.len() != times.len() {
            return Err(format!("{} sizes but {} times", sizes.len(), times.len()));
        }
        let mut points: Vec<(usize, f64)> = Vec::with_capacity(sizes.len());
        for (size, time) in sizes.iter().zip(times) {
            let bytes = size
                .as_integer()
                .and_then(|size| usize::try_from(size).ok());
            let bytes = bytes.ok_or_else(|| format!("the size {size} is no number of bytes"))?;
            let us = number(Some(time)).filter(|us| (1e-6..1e12).contains(us));
            let us = us.ok_or_else(|| format!("the time {time} is no number of microseconds"))?;
            if points.last().is_some_and(|&(last, _)| last >= bytes) {
                return Err(format!("the size {bytes} does not exceed the one before"));
            }
            points.push((bytes, us * 1e3));
        }
        Ok(points)
    }
}
