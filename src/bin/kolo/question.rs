//! The question of `kolo explain` and `kolo sim`: a collective, a size, and ranks on a machine that
//! need not be there.

use crate::arrangement::Arrangement;
use crate::names::{self, Named};
use crate::perf::options;
use crate::perf::seat::Seat;
use clap::Args;
use kolo::algo;
use kolo::base::{Error, Result};
use kolo::comm::tuning;
use kolo::config::Settings;
use kolo::dtype::DataType;
use kolo::exec::sim::{self, Job, Report};
use kolo::plan::{Algorithm, Collective, Nodes, Plan, Program, Shape, Window};
use kolo::price::parts;
use kolo::tune::{self, Choice, ProtocolChoice, Table};
use serde_json::{Value, json};
use std::fmt::Write;

/// A collective, a size and an arrangement of ranks.
#[derive(Args, Clone, Debug)]
pub struct Question {
    /// The collective, as in `kolo perf`
    #[arg(value_parser = names::named)]
    pub collective: Named,
    /// Size of the data, as in `kolo perf`: K, M, G or T stand for powers of 1024
    #[arg(value_parser = options::size, default_value = "8")]
    pub size: u64,
    #[command(flatten)]
    pub place: Arrangement,
    /// Root, where there is one
    #[arg(short = 'r', long, value_name = "RANK", default_value_t = 0)]
    pub root: u32,
    /// Type of the elements
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", default_value = "float",
          value_parser = one_type)]
    pub dtype: DataType,
    /// Whether a simulation takes buffers for mapped or registered.
    #[arg(skip)]
    pub mapped: bool,
}

fn one_type(text: &str) -> std::result::Result<DataType, String> {
    match options::types(text)?.0.as_slice() {
        [one] => Ok(*one),
        _ => Err("one type".into()),
    }
}

impl Question {
    /// The collective that computes it, where that has algorithms.
    ///
    /// # Errors
    /// Those of [`Question::call`]; blocks of different sizes.
    pub fn collective(&self) -> Result<Collective> {
        let found = self.call()?;
        if found.is_vector() {
            return Err(Error::argument(
                format!(
                    "{} has no algorithms to choose from: it is a bundle of messages",
                    self.collective.row.name
                ),
                "ask about one of them with sendrecv",
            ));
        }
        Ok(found)
    }

    /// The collective that is called.
    ///
    /// # Errors
    /// What `kolo perf` measures but is no single collective; a root that is no rank.
    pub fn call(&self) -> Result<Collective> {
        let Named { row, message } = self.collective;
        // That of a send and a receive, which are two of one size.
        let send = (row.name == "sendrecv").then_some(Collective::Send);
        let found = row.kolo.or(message).or(send).ok_or_else(|| {
            Error::argument(
                format!("{} is made of several calls", row.name),
                "ask about one of them, such as sendrecv",
            )
        })?;
        let nranks = self.place.nranks();
        if self.root >= nranks {
            return Err(Error::argument(
                format!("root {} is none of the {nranks} ranks", self.root),
                "give -r a rank",
            ));
        }
        Ok(found)
    }

    /// Whether it is a send and a receive at once.
    pub fn is_exchange(&self) -> bool {
        self.collective.row.name == "sendrecv" && self.collective.message.is_none()
    }

    /// The name of what is asked about, `call` being the collective that is called.
    pub fn name(&self, call: Collective) -> &'static str {
        if self.is_exchange() {
            "SendRecv"
        } else {
            call.name()
        }
    }

    /// Elements that the call names as its count.
    pub fn count(&self) -> usize {
        self.count_of(self.size)
    }

    fn count_of(&self, size: u64) -> usize {
        let elements = size as usize / self.dtype.size_bytes();
        let seat = Seat {
            rank: 0,
            nranks: self.place.nranks(),
            root: self.root,
        };
        (self.collective.row.counts)(elements, &seat).call
    }

    /// Bytes of the call's count: what the tuner looks at.
    pub fn bytes(&self) -> usize {
        self.count() * self.dtype.size_bytes()
    }

    /// Asks the question about another size.
    pub fn sized(&self, size: u64) -> Question {
        Question {
            size,
            ..self.clone()
        }
    }

    /// The table that a communicator of these ranks would have.
    ///
    /// # Errors
    /// Settings that cannot be used.
    pub fn table(&self, settings: &Settings) -> Result<Table> {
        Ok(Table::new(tuning::imagined(
            settings,
            &self.place.cluster()?,
        )?))
    }

    /// In words: `AllReduce of 4M (1048576 x float) on 64 nodes x 8 ranks`.
    pub fn text(&self, name: &str) -> String {
        let ranks = match self.place.ranks {
            (1, per_node) => format!("{per_node} ranks of one node"),
            (nodes, per_node) => format!("{nodes} nodes x {per_node} ranks"),
        };
        let size = match self.collective.row.sizeless {
            true => String::new(),
            false => format!(
                " of {} (count {} x {})",
                bytes_text(self.size as f64),
                self.count(),
                self.dtype.name()
            ),
        };
        format!("{name}{size} on {ranks}")
    }

    /// The head of an answer: the question, and who sits where if more is to be said than a
    /// number.
    pub fn head(&self, name: &str, table: &Table) -> String {
        let mut text = format!("{}\n", self.text(name));
        if let Some(seats) = self.place.text(&table.inputs().setting.machine) {
            let _ = writeln!(text, "{seats}");
        }
        text + "\n"
    }

    /// The question itself, for `--json`.
    pub fn document(&self, name: &str) -> Value {
        let (nodes, per_node) = self.place.ranks;
        json!({
            "collective": name,
            "bytes": self.size,
            "count": self.count(),
            "type": self.dtype.name(),
            "root": self.root,
            "nodes": nodes,
            "ranks_per_node": per_node,
        })
    }

    /// The shape of a rank's plan.
    fn shape(&self, collective: Collective, choice: &Choice, rank: u32) -> Shape {
        let rooted = collective.has_root();
        let peer = collective.is_point_to_point();
        Shape {
            collective,
            algorithm: choice.algorithm,
            rank,
            nranks: self.place.nranks(),
            root: match (rooted, peer) {
                (true, _) => self.root,
                (false, true) => 1 - rank.min(1),
                _ => 0,
            },
            channels: choice.channels,
        }
    }

    /// The plan of a rank. A message is one between the ranks 0 and 1; the call that is asked about
    /// is that of rank 0.
    ///
    /// # Errors
    /// The algorithm does not compute the collective.
    pub fn plan(
        &self,
        collective: Collective,
        choice: &Choice,
        rank: u32,
        nodes: &Nodes,
    ) -> Result<Plan> {
        let collective = match (collective, rank) {
            (Collective::Send, 1) => Collective::Recv,
            (Collective::Recv, 1) => Collective::Send,
            _ => collective,
        };
        let mut plan = algo::plan(&self.shape(collective, choice, rank), nodes)?;
        if collective.is_point_to_point() && rank > 1 {
            plan.lanes.clear();
            plan.steps.clear();
            plan.connections.clear();
        }
        Ok(plan)
    }

    /// The simulation of a choice.
    pub fn job(&self, collective: Collective, choice: &Choice, table: &Table) -> Job {
        let n = self.place.nranks();
        let setting = &table.inputs().setting;
        Job {
            machine: setting.machine.clone(),
            costs: setting.costs.over(choice.protocol.of_pairs()),
            count: self.count(),
            element_bytes: self.dtype.size_bytes(),
            geometry: tune::geometry(
                collective,
                choice.algorithm,
                choice.protocol,
                (setting.buffer_bytes, setting.eager_bytes),
            ),
            blocks: (collective.input_blocks(n), collective.output_blocks(n)),
            mapped: self.mapped,
        }
    }

    /// Rounds of the first lane, and slices of a chunk.
    ///
    /// # Errors
    /// A plan that is too large to run.
    pub fn rounds(&self, plan: &Plan, job: &Job) -> Result<(u64, u32)> {
        let window: Window = job.window(&Program::lower(plan)?, 0);
        Ok((window.rounds(), window.slices()))
    }

    /// Simulates a choice.
    ///
    /// # Errors
    /// The simulator's.
    pub fn simulate(
        &self,
        collective: Collective,
        choice: &Choice,
        table: &Table,
        nodes: &Nodes,
    ) -> Result<Report> {
        let job = self.job(collective, choice, table);
        sim::simulate(&job, &|rank| self.plan(collective, choice, rank, nodes))
    }

    /// The nodes as plans see them: rings and trees pass each cache once, as a communicator's do.
    ///
    /// # Errors
    /// None but faults of kolo itself.
    pub fn nodes(&self, table: &Table) -> Result<Nodes> {
        let nodes = Nodes::uniform(self.place.ranks.0, self.place.ranks.1);
        let machine = &table.inputs().setting.machine;
        let nodes = nodes.with_parts(&parts::names(machine));
        nodes.in_orders(machine.orders()).map_err(Error::internal)
    }

    /// The choice with an algorithm that the user names.
    ///
    /// # Errors
    /// An algorithm that there is not, or that does not compute the collective.
    pub fn forced(&self, collective: Collective, name: &str, table: &Table) -> Result<Choice> {
        let known: Vec<&str> = algo::REGISTRY
            .iter()
            .filter(|entry| entry.collective == collective)
            .map(|entry| entry.algorithm.name())
            .collect();
        let wanted = name.to_lowercase();
        let algorithm = Algorithm::named(&wanted).filter(|_| known.contains(&wanted.as_str()));
        let Some(algorithm) = algorithm else {
            let near = known
                .iter()
                .max_by(|a, b| {
                    strsim::jaro_winkler(a, &wanted).total_cmp(&strsim::jaro_winkler(b, &wanted))
                })
                .unwrap_or(&"");
            return Err(Error::argument(
                format!(
                    "no algorithm `{name}` computes {}; did you mean {near}?",
                    collective.name()
                ),
                format!("use one of {}", known.join(", ")),
            ));
        };
        let candidates = table.candidates(collective, self.bytes());
        let mut of = candidates.iter().map(|c| c.choice);
        let over = ProtocolChoice::of(collective, algorithm);
        let usual = of
            .clone()
            .find(|c| c.algorithm == algorithm && c.protocol == over);
        let found = usual.or_else(|| of.find(|c| c.algorithm == algorithm));
        let channels = algo::find(collective, algorithm).map_or(1, |entry| entry.channels);
        Ok(found.unwrap_or(Choice::plain(collective, algorithm, channels)))
    }
}

/// A choice, for `--json`.
pub fn choice_document(collective: Collective, choice: &Choice) -> Value {
    if choice.composed {
        let names = tune::parts(collective).iter().map(|(part, _)| part.name());
        return json!({ "in_a_row": names.collect::<Vec<_>>() });
    }
    json!({
        "algorithm": choice.algorithm.name(),
        "protocol": choice.protocol.name(),
        "channels": choice.channels,
    })
}

/// A number, for `--json`; null where it is unknown.
pub fn number(value: f64) -> Value {
    if value.is_finite() && value < 1e30 {
        json!(value)
    } else {
        Value::Null
    }
}

/// `4K`, `1.5M`: three digits and a power of 1024.
pub fn bytes_text(bytes: f64) -> String {
    let units = ["", "K", "M", "G", "T", "P"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 || unit == 0 {
        format!("{value:.0}{}", units[unit])
    } else {
        format!("{value:.1}{}", units[unit])
    }
}

/// `812 ns`, `4.73 us`, `1.2 s`.
pub fn time_text(ns: f64) -> String {
    if !ns.is_finite() || ns > 1e30 {
        return "unknown".to_string();
    }
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    match value {
        v if v < 10.0 => format!("{v:.2} {unit}"),
        v if v < 100.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(bytes_text(4096.0), "4K");
        assert_eq!(bytes_text(1536.0), "1.5K");
        assert_eq!(bytes_text(7.0), "7");
        assert_eq!(time_text(812.0), "812 ns");
        assert_eq!(time_text(4734.0), "4.73 us");
        assert_eq!(time_text(1.25e9), "1.25 s");
    }
}
