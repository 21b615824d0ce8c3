//! `kolo explain --device cuda`: what a communicator of GPUs would do with a call.
//!
//! Each call is a launch of an interpreter for each rank, or several in a row; there are no short
//! ways, and no estimate of times. What is said here follows the steps of a call on a stream
//! (`src/comm/calling/device.rs`), on GPUs that have blocks enough.

use crate::deciding;
use crate::out::{self, counted};
use crate::perf::operation::Operation;
use crate::question::{self, Question, bytes_text};
use crate::routes;
use kolo::algo;
use kolo::base::{Error, Result};
use kolo::comm::{orders, tuning};
use kolo::config::{Layer, Settings};
use kolo::dtype::ReduceOp;
use kolo::exec::cuda::{fit, names};
use kolo::plan::pairs::pairs_only;
use kolo::plan::window::Binding;
use kolo::plan::{Algorithm, Collective, Lane, Nodes, Plan, Protocol, Window};
use kolo::tune::{Asked, CallForm, Choice, Combining, Route, Table, device, parts};
use serde_json::{Value, json};
use std::fmt::Write;

/// The way of a call on a device.
enum DeviceWay {
    /// Nothing is exchanged.
    Nothing,
    /// A rank alone copies.
    Copy,
    /// Messages, in as few launches as can be.
    Messages,
    /// Collectives in a row, each a call of its own.
    Composed(Vec<&'static str>),
    /// A launch that passes a plan.
    Launch(Box<DeviceLaunched>),
}

impl DeviceWay {
    /// The form, as the call itself has it.
    fn form(&self) -> CallForm {
        match self {
            DeviceWay::Nothing => CallForm::Nothing,
            DeviceWay::Copy => CallForm::Copy,
            DeviceWay::Messages => CallForm::Waves,
            DeviceWay::Composed(_) => CallForm::Several,
            DeviceWay::Launch(_) => CallForm::Kernel,
        }
    }
}

/// A launch.
struct DeviceLaunched {
    choice: Choice,
    kernel: String,
    rounds: u64,
    /// Of the rank that is asked about, in all rounds.
    steps: u64,
    /// Choice where devices do not all reach each other, if it is another one.
    apart: Option<Choice>,
}

/// The question with all that answers it.
struct Answering<'q> {
    question: &'q Question,
    collective: Collective,
    op: Operation,
    table: Table,
    slots: [usize; 3],
    nodes: Nodes,
}

/// Prints the choice.
///
/// # Errors
/// Settings that cannot be used, and questions without an answer.
pub fn run(question: &Question, op: Operation, json: bool) -> Result<()> {
    let collective = question.call()?;
    let settings = Settings::load(&[])?;
    let (inputs, slots) = tuning::imagined_on_devices(&settings, &question.place.cluster()?)?;
    let answering = Answering {
        question,
        collective,
        op,
        table: Table::new(inputs),
        slots,
        nodes: orders::imagined(&settings, question.place.ranks.0, question.place.ranks.1)?,
    };
    let way = answering.way();
    match json {
        true => {
            let mut document = document(&way, collective);
            document["question"] = question.document(question.name(collective));
            document["question"]["device"] = "cuda".into();
            document["settings"] = deciding::document(&settings);
            out::json(&document);
        }
        false => {
            let title = question.text(question.name(collective));
            let mut text = format!("{title}, each on a GPU\n\n");
            answering.tell(&mut text, &way, &settings);
            deciding::tell(&mut text, &settings);
            out::write(&text);
        }
    }
    Ok(())
}

impl Answering<'_> {
    fn way(&self) -> Result<DeviceWay> {
        self.admit()?;
        let nranks = self.question.place.nranks();
        if self.collective == Collective::Barrier {
            let barrier = Choice::plain(Collective::Barrier, Algorithm::Dissemination, 1);
            return match nranks {
                1 => Ok(DeviceWay::Nothing),
                _ => self.launch(barrier, None),
            };
        }
        let asked = routes::asked(self.question, self.collective, self.op)?;
        if asked.combining == Combining::Exact {
            return Err(Error::usage(
                "exact sums are computed in memory of the host",
                "use a communicator on the host, or sum on the device (koloSum)",
            ));
        }
        match device::route(&asked, &self.table) {
            Route::Nothing => Ok(DeviceWay::Nothing),
            Route::Composed => {
                let names = parts(self.collective).iter().map(|(part, _)| part.name());
                Ok(DeviceWay::Composed(names.collect()))
            }
            Route::Parts { .. } => Ok(DeviceWay::Messages),
            _ if self.collective.is_point_to_point() => Ok(DeviceWay::Messages),
            Route::Alone { .. } => Ok(DeviceWay::Copy),
            route => self.planned(&asked, route),
        }
    }

    /// Refuses what devices cannot do.
    fn admit(&self) -> Result<()> {
        if self.question.place.ranks.0 > 1 {
            return Err(Error::usage(
                "this version of kolo connects the devices of one node",
                "ask about one node (-n 8)",
            ));
        }
        if self.collective.is_vector() && self.collective.reduces() {
            return Err(Error::usage(
                "blocks of different sizes are not reduced on a device",
                "use ReduceScatter with blocks of one size, or a communicator on the host",
            ));
        }
        Ok(())
    }

    fn planned(&self, asked: &Asked, route: Route) -> Result<DeviceWay> {
        let choice = route.choice(asked, &self.table);
        let choice = choice.ok_or_else(|| Error::internal("a route without a plan"))?;
        let near = self.fitting(asked, choice, true)?;
        let apart = self.fitting(asked, choice, false)?;
        self.launch(near, (apart != near).then_some(apart))
    }

    /// The choice as devices run it. `has_ll128`: all of them reach each other.
    fn fitting(&self, asked: &Asked, choice: Choice, has_ll128: bool) -> Result<Choice> {
        let call = (asked.collective, asked.bytes);
        let of = |choice| device::choice(&self.table, call, choice, has_ll128);
        let chosen = of(choice);
        let entry = algo::find(asked.collective, choice.algorithm);
        let most = entry.map_or(0, |entry| u64::from(entry.most_rounds));
        if most == 0 {
            return Ok(chosen);
        }
        let rounds = self.rounds(&self.plan(&chosen)?, &chosen)?;
        if rounds.iter().all(|&rounds| rounds <= most) {
            return Ok(chosen);
        }
        Ok(of(self.table.choose_large(asked.collective, asked.bytes)))
    }

    fn plan(&self, choice: &Choice) -> Result<Plan> {
        let question = self.question;
        let plan = question.plan(self.collective, choice, question.root, &self.nodes)?;
        Ok(pairs_only(&plan))
    }

    /// The type and the operation of the kernel; none where elements are only moved.
    fn folded(&self) -> Option<ReduceOp> {
        match self.op {
            Operation::Built(op) if self.collective.reduces() => Some(op),
            _ => None,
        }
    }

    /// The rounds of each lane.
    fn rounds(&self, plan: &Plan, choice: &Choice) -> Result<Vec<u64>> {
        let job = self.question.job(self.collective, choice, &self.table);
        let protocol = choice.protocol.of_pairs();
        let steps = (job.geometry.chunk_steps, job.geometry.slice_steps);
        // What is only moved is moved as bytes.
        let (count, element_bytes) = match self.folded() {
            Some(_) => (job.count, job.element_bytes),
            None => (job.count * job.element_bytes, 1),
        };
        let slot_bytes = self.slots[protocol as usize];
        let geometry = fit::geometry(protocol, slot_bytes, steps, (plan.pieces, element_bytes))?;
        let rounds = |lane: &Lane| {
            let binding = Binding {
                count,
                element_bytes,
                input_blocks: job.blocks.0,
                output_blocks: job.blocks.1,
                lane: u32::from(lane.channel),
                lanes: plan.channels(),
                pieces: plan.pieces,
            };
            Window::bind(plan.layout, plan.chunks, &geometry, &binding).rounds()
        };
        Ok(plan.lanes.iter().map(rounds).collect())
    }

    fn launch(&self, choice: Choice, apart: Option<Choice>) -> Result<DeviceWay> {
        let plan = self.plan(&choice)?;
        let rounds = self.rounds(&plan, &choice)?;
        Ok(DeviceWay::Launch(Box::new(DeviceLaunched {
            kernel: self.kernel(choice.protocol.of_pairs())?,
            rounds: rounds.iter().copied().max().unwrap_or(0),
            steps: (0..)
                .zip(&rounds)
                .map(|(lane, rounds)| plan.lane_steps_per_round(lane) * rounds)
                .sum(),
            choice,
            apart,
        })))
    }

    fn kernel(&self, protocol: Protocol) -> Result<String> {
        let (dtype, op) = match self.folded() {
            Some(op) => (self.question.dtype, Some(op)),
            None => (kolo::dtype::DataType::Int8, None),
        };
        names::kernel(protocol, dtype, op).ok_or_else(|| {
            Error::usage(
                format!("the kernels have no {} of {}", self.op.name(), dtype.name()),
                "reduce one of the 12 types of docs/gpu.md with sum, prod, max, min or avg, or use \
                 a communicator on the host",
            )
        })
    }

    fn tell(&self, text: &mut String, way: &Result<DeviceWay>, settings: &Settings) {
        let route = match way {
            Err(error) => {
                let _ = writeln!(text, "route       refused: {}", error.what);
                let _ = writeln!(text, "remedy      {}", error.remedy);
                return;
            }
            Ok(way) => format!("{}, form {}", words(way), way.form().name()),
        };
        let _ = writeln!(text, "route       {route}");
        if let Ok(DeviceWay::Launch(launched)) = way {
            self.tell_launch(text, launched, settings);
        }
        text.push_str("time        unknown: kolo has measured no GPU\n");
    }

    fn tell_launch(&self, text: &mut String, launched: &DeviceLaunched, settings: &Settings) {
        let _ = writeln!(text, "chosen      {}", launched.choice.words());
        let _ = writeln!(text, "kernel      {}", launched.kernel);
        let (rounds, steps) = (launched.rounds, launched.steps);
        let _ = writeln!(
            text,
            "steps       {} of rank {}, in {}",
            counted(steps, "step"),
            self.question.root,
            counted(rounds, "round"),
        );
        let _ = writeln!(text, "why         {}", self.why(&launched.choice, settings));
        if let Some(apart) = launched.apart {
            let _ = writeln!(
                text,
                "otherwise   {}, where devices do not all reach each other",
                apart.words()
            );
        }
    }

    /// The reason, in a sentence.
    fn why(&self, choice: &Choice, settings: &Settings) -> String {
        if self.collective == Collective::Barrier {
            return "a barrier has one algorithm on devices".to_owned();
        }
        let is_set = |key: &str| {
            let entry = settings.entry(key);
            entry.is_some_and(|entry| entry.source.layer != Layer::Default)
        };
        let algorithm = match is_set("algo") {
            true => "the best of what KOLO_ALGO allows".to_owned(),
            false => {
                let cell = self.table.cell(self.collective, self.question.bytes());
                format!("by estimates for processors: {}", cell.decided)
            }
        };
        let limit = |bytes: usize| bytes_text(bytes as f64);
        let (ll, ll128) = (limit(device::LL_BYTES), limit(device::LL128_BYTES));
        let protocol = match choice.protocol.of_pairs() {
            _ if is_set("proto") => "the first that KOLO_PROTO allows".to_owned(),
            Protocol::Ll => format!("up to {ll} each word carries a flag"),
            Protocol::Ll128 => format!("up to {ll128} each line of 128 bytes carries a flag"),
            Protocol::Simple => format!("above {ll128} slots carry the least beside the data"),
        };
        format!("{algorithm}; {protocol}")
    }
}

fn words(way: &DeviceWay) -> String {
    match way {
        DeviceWay::Nothing => "nothing: no data are exchanged".to_owned(),
        DeviceWay::Copy => "copy: the only rank copies its data on its stream".to_owned(),
        DeviceWay::Messages => {
            "messages: launches that move them together, by slots (Simple)".to_owned()
        }
        DeviceWay::Composed(names) => {
            format!(
                "composed: {}, one launch after the other",
                names.join(" and ")
            )
        }
        DeviceWay::Launch(_) => {
            "launch: on the stream of each rank one kernel interprets the plan".to_owned()
        }
    }
}

/// Explains the way for programs.
fn document(way: &Result<DeviceWay>, collective: Collective) -> Value {
    let way = match way {
        Err(error) => return routes::refusal(error),
        Ok(way) => way,
    };
    let (name, more) = words(way).split_once(": ").map_or_else(
        || (String::new(), String::new()),
        |(name, more)| (name.to_owned(), more.to_owned()),
    );
    let mut document = json!({ "route": name, "words": more, "time_ns": Value::Null });
    document["form"] = way.form().name().into();
    if let DeviceWay::Launch(launched) = way {
        document["chosen"] = question::choice_document(collective, &launched.choice);
        document["kernel"] = launched.kernel.as_str().into();
        document["rounds"] = launched.rounds.into();
        document["steps"] = launched.steps.into();
        let apart = launched.apart.as_ref();
        let apart = apart.map(|apart| question::choice_document(collective, apart));
        document["out_of_reach"] = apart.unwrap_or(Value::Null);
    }
    document
}
