//! `wgattn spe`: the template of a position code, what drawn codes make of it, and the error against the number of realisations.

mod measure;
mod parameters;
mod plot;

use super::{Failure, Outcome, notice, open_device, print_line, unwritten};
use crate::arrays::{self, Array, ArrayData};
use crate::backend::Backend;
use crate::numbers::{seconds, significant};
use crate::position::weights::Convention;
use crate::position::{Mode, Noise, noise};
use crate::vision::overlay::{check_target, save_picture};
use crate::words::counted;
use clap::ValueEnum;
use measure::{AtRealizations, CodeArg, Truth, measure, slope};
use parameters::{Subject, SynthesisArg, Target, told};
use plot::Plot;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Instant;

/// Most seeds of a run: an hour's work even for small codes.
const MOST_SEEDS: u32 = 4096;
/// Arrays that `--raw` writes.
const NUMBERS: usize = 9;
/// Standard error of a ratio above which a run of few seeds is told to be a rough one.
const ROUGH: f64 = 0.05;

/// Arguments of `wgattn spe`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::position::weights::NAMES)]
pub(super) struct Args {
    /// Kind of code
    #[arg(value_enum)]
    kind: KindArg,
    /// Sinusoids K of `sine` [default: 5]
    #[arg(long)]
    sinusoids: Option<u32>,
    /// Bias of its frequencies [default: -4, as published]
    #[arg(long, allow_negative_numbers = true)]
    bias: Option<f64>,
    /// Taps P of `conv` along each axis, such as 16 or 8x8 [default: 16 on a line, 8x8 on a grid; one more along each axis with
    /// --template, as most templates need an odd number]
    #[arg(long)]
    taps: Option<String>,
    /// Heads [default: 1]
    #[arg(long)]
    heads: Option<u32>,
    /// Dimensions D of a head [default: 16]
    #[arg(long)]
    dim: Option<u32>,
    /// Tokens: 128 on a line, or ROWSxCOLS on a grid
    #[arg(long, default_value = "128")]
    tokens: String,
    /// Numbers of realisations R, at most 16384 each
    #[arg(long, value_delimiter = ',', default_value = "16,64,256,1024,4096", value_parser = parse_realizations)]
    realizations: Vec<u32>,
    /// First seed of the noise
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Seeds that are averaged over, one after the other
    #[arg(long, default_value_t = 4)]
    seeds: u32,
    /// Seed of the parameters as training begins with them [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    init: Option<u64>,
    /// γ of a gate, 0 to 1: the share that ignores positions
    #[arg(long, allow_negative_numbers = true)]
    gate: Option<f64>,
    /// Distribution of the noise: icdf, box-muller or rademacher
    #[arg(long, default_value = "icdf", value_parser = parse_mode)]
    mode: Mode,
    /// Make the code for a template: exp:SIZE, past:SIZE (keys before the query), gauss:SIZE, pulse:SIZE, or FILE.npy with values by
    /// lag, lag 0 in the middle
    #[arg(long)]
    template: Option<Target>,
    /// How filters are found for it [default: roots, delta for grids from a file]
    #[arg(long, value_enum)]
    synthesis: Option<SynthesisArg>,
    /// Parameters from a .safetensors, .npz or .npy file
    #[arg(long, conflicts_with = "template")]
    params: Option<PathBuf>,
    /// Whose names and meanings the file has: pytorch, jax or jax-swapped [default: pytorch]
    #[arg(long, value_parser = parse_convention)]
    convention: Option<Convention>,
    /// What stands before the code's names in the file
    #[arg(long)]
    prefix: Option<String>,
    /// What stands before `gate` in the file, "" for nothing; without it the code has no gate
    #[arg(long)]
    gate_prefix: Option<String>,
    /// Head and dimension whose template is drawn
    #[arg(long, default_value = "0,0", value_parser = parse_channel)]
    show: (u32, u32),
    /// How codes are made
    #[arg(long, value_enum, default_value = "fused")]
    code: CodeArg,
    /// auto, cpu, cuda:0, or the index, name or backend of an adapter (see `wgattn devices`)
    #[arg(long, default_value = "auto", value_parser = super::device_word)]
    device: String,
    #[command(flatten)]
    tune: super::tune::TuneArg,
    /// Picture to write
    #[arg(long, default_value = "spe.png")]
    out: PathBuf,
    /// Also write the numbers as .npz or .safetensors
    #[arg(long)]
    raw: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Kind of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// Sums of cosines: templates that may be periodic and never end
    Sine,
    /// Pairs of filters: templates that end
    Conv,
}

fn one_of<T: Copy>(list: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = list.iter().find(|(name, _)| *name == text).map(|(_, entry)| *entry);
    found.ok_or_else(|| {
        let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn parse_realizations(text: &str) -> Result<u32, String> {
    let wrong = || {
        format!(
            "expected whole numbers from 1 to {} with a comma between each two, such as 16,64,256",
            noise::MOST_REALIZATIONS
        )
    };
    text.trim().parse().map_err(|_| wrong())
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    one_of(&Mode::ALL, text)
}

fn parse_convention(text: &str) -> Result<Convention, String> {
    one_of(&Convention::ALL, text)
}

fn parse_channel(text: &str) -> Result<(u32, u32), String> {
    let pair = text.split_once(',').and_then(|(h, d)| Some((h.trim().parse().ok()?, d.trim().parse().ok()?)));
    pair.ok_or_else(|| "expected HEAD,DIMENSION such as 0,3, counted from 0".into())
}

impl Args {
    /// Seeds of the noise, one after the other.
    fn seeds(&self) -> Result<Vec<u64>, Failure> {
        let last = self.seed.checked_add(u64::from(self.seeds).saturating_sub(1));
        match (self.seeds, last) {
            (1..=MOST_SEEDS, Some(last)) => Ok((self.seed..=last).collect()),
            (1..=MOST_SEEDS, None) => Err(Failure(format!(
                "--seed {}: {} from there on pass 2^64 − 1; begin earlier",
                self.seed,
                counted(self.seeds, "seed", "seeds")
            ))),
            (seeds, _) => Err(Failure(format!(
                "--seeds {seeds}: expected 1 to {MOST_SEEDS}; 1 gives no standard errors, 4 is usual, 16 is the README's"
            ))),
        }
    }

    /// The numbers of realisations, each once, from few to many.
    fn realizations(&self, heads: u32, width: u32) -> Result<Vec<u32>, Failure> {
        for realizations in &self.realizations {
            noise::check_sizes(heads, width, *realizations)?;
        }
        let mut all = self.realizations.clone();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Number of the channel whose template is drawn.
    fn shown(&self, heads: u32, width: u32) -> Result<usize, Failure> {
        let (h, d) = self.show;
        if h < heads && d < width {
            return Ok((h * width + d) as usize);
        }
        Err(Failure(format!(
            "--show {h},{d}: expected a head below {heads} and a dimension below {width}, counted from 0; --show 0,0 is the first"
        )))
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    check_target(&args.out)?;
    if let Some(raw) = &args.raw {
        arrays::check_target(raw)?;
        arrays::check_count(raw, NUMBERS)?;
    }
    let seeds = args.seeds()?;
    let subject = Subject::of(args)?;
    let (heads, width) = (subject.encoding.code().heads(), subject.encoding.code().width());
    let all_realizations = args.realizations(heads, width)?;
    let shown = args.shown(heads, width)?;
    subject.notices.iter().for_each(notice);
    if args.mode == Mode::Rademacher {
        notice(
            "predictions hold for Gaussian noise; entries of single dimensions vary less under rademacher",
        );
    }
    let truth = Truth::of(&subject.encoding, &subject.positions, seeds[0])?;
    if truth.is_zero() {
        return Err(Failure(
            "the code is 0 at every token, as all its gains or taps are: there is no error to measure; take parameters with a number \
             other than 0, or add a --gate"
                .into(),
        ));
    }
    let backend = open_device(&args.device, args.tune)?;
    let noise = Noise { mode: args.mode, ..Noise::default() };
    let bar = match std::io::stderr().is_terminal() {
        true => indicatif::ProgressBar::new((all_realizations.len() * seeds.len()) as u64),
        false => indicatif::ProgressBar::hidden(),
    };
    let begin = Instant::now();
    let mut measured = Vec::new();
    for realizations in all_realizations {
        let tick = || bar.inc(1);
        let which = (realizations, shown);
        measured.push(measure(&truth, backend.as_ref(), args.code, &noise, &seeds, which, &tick)?);
    }
    bar.finish_and_clear();
    let exact = truth.row(shown);
    let plot = Plot {
        positions: &subject.positions,
        middle: truth.middle,
        channel: format!("head {}, dimension {}", args.show.0, args.show.1),
        exact: &exact,
        variances: truth.variances(shown),
        measured: &measured,
        seeds: seeds.len(),
    };
    let picture = plot.draw().map_err(Failure)?;
    save_picture(&picture, &args.out).map_err(|e| unwritten(&args.out, &e))?;
    if let Some(raw) = &args.raw {
        arrays::write(raw, &BTreeMap::from(numbers(&measured, &exact)))?;
    }
    let report = Report {
        args,
        subject: &subject,
        measured: &measured,
        backend: backend.as_ref(),
        took: begin.elapsed().as_secs_f64(),
    };
    if args.json {
        return print_line(&serde_json::to_string_pretty(&report.json())?);
    }
    report.lines().iter().try_for_each(|line| print_line(line))
}

/// The measured numbers as arrays.
fn numbers(measured: &[AtRealizations], exact: &[f64]) -> [(String, Array); NUMBERS] {
    let column = |of: &dyn Fn(&AtRealizations) -> f64| Array {
        shape: vec![measured.len()],
        data: ArrayData::F64(measured.iter().map(of).collect()),
    };
    let rows = measured.iter().flat_map(|at| at.row.iter().copied()).collect();
    let or_nan = |x: Option<f64>| x.unwrap_or(f64::NAN);
    let realizations = measured.iter().map(|at| at.realizations).collect();
    [
        ("realizations".into(), Array { shape: vec![measured.len()], data: ArrayData::U32(realizations) }),
        ("rmse".into(), column(&|at| at.rmse)),
        ("predicted".into(), column(&|at| at.predicted)),
        ("ratio_error".into(), column(&|at| or_nan(at.ratio_error))),
        ("logit_std".into(), column(&|at| at.logit[0])),
        ("logit_std_predicted".into(), column(&|at| at.logit[1])),
        ("variance_within_lags".into(), column(&|at| or_nan(at.within))),
        ("template".into(), Array { shape: vec![exact.len()], data: ArrayData::F64(exact.to_vec()) }),
        ("estimate".into(), Array { shape: vec![measured.len(), exact.len()], data: ArrayData::F64(rows) }),
    ]
}

/// The facts of one run, told twice.
struct Report<'a> {
    args: &'a Args,
    subject: &'a Subject,
    measured: &'a [AtRealizations],
    backend: &'a dyn Backend,
    took: f64,
}

impl Report<'_> {
    /// The code in words.
    fn code(&self) -> String {
        use crate::position::Code;
        let (heads, width) = (self.subject.encoding.code().heads(), self.subject.encoding.code().width());
        let size = match self.subject.encoding.code() {
            Code::Sine(code) => counted(code.sinusoids(), "sinusoid", "sinusoids"),
            Code::Conv(code) => {
                let taps: Vec<String> = code.taps().iter().map(ToString::to_string).collect();
                match taps.as_slice() {
                    [one] => format!("{one} {}", if one == "1" { "tap" } else { "taps" }),
                    many => format!("{} taps", many.join(" × ")),
                }
            }
        };
        let gate = match (self.subject.encoding.gate(), self.args.gate) {
            (None, _) => String::new(),
            (Some(_), Some(share)) => format!(", gate γ = {share}"),
            (Some(_), None) => ", gated".into(),
        };
        format!(
            "{}, {}, {}{gate}, {} parameters",
            size,
            counted(heads, "head", "heads"),
            counted(width, "dimension", "dimensions"),
            self.subject.encoding.parameters()
        )
    }

    fn tokens(&self) -> String {
        let sides: Vec<String> = self.subject.positions.sides().iter().map(ToString::to_string).collect();
        sides.join(" × ")
    }

    fn lines(&self) -> Vec<String> {
        let kind = match self.args.kind {
            KindArg::Sine => "sine",
            KindArg::Conv => "conv",
        };
        let mut lines =
            vec![format!("code         {kind}: {}", self.code()), format!("tokens       {}", self.tokens())];
        lines.extend(self.subject.fit.as_ref().map(|fit| format!("template     {}", told(fit))));
        let mode = Mode::ALL[self.args.mode.number() as usize].0;
        lines.push(match self.args.seeds {
            1 => format!("noise        {mode}, seed {}", self.args.seed),
            seeds => {
                let last = self.args.seed + u64::from(seeds) - 1;
                format!("noise        {mode}, seeds {} to {last}", self.args.seed)
            }
        });
        lines.push(format!("device       {}", self.backend.info().name));
        lines.push(String::new());
        lines.extend(self.covariance_table());
        lines.push(String::new());
        lines.push("logits of Gaussian queries and keys".into());
        lines.extend(self.logit_table());
        lines.push(String::new());
        let worst = self.measured.iter().filter_map(|at| at.ratio_error).fold(0.0, f64::max);
        if let Some(slope) = slope(self.measured) {
            lines.push(format!(
                "slope        {} of ln rmse over ln R; −0.5 is expected",
                significant(slope, 3)
            ));
        }
        if self.args.seeds == 1 {
            lines.push("             how well ratios are known shows with two --seeds or more".into());
        }
        if worst > ROUGH {
            let wanted = (f64::from(self.args.seeds) * (worst / 0.015).powi(2)).ceil();
            lines.push(format!(
                "             rough: ratios are known to ±{}; --seeds {} would bring that to ±0.015",
                significant(worst, 2),
                significant(wanted, 2)
            ));
        }
        lines.push(format!("time         {}", seconds(self.took)));
        lines.push(format!("wrote        {}", self.args.out.display()));
        lines.extend(self.args.raw.iter().map(|raw| format!("             {}", raw.display())));
        lines
    }

    /// Covariance: measured, predicted, their ratio, and how far it is from depending on the lag alone.
    fn covariance_table(&self) -> Vec<String> {
        let rows = self.measured.iter().map(|at| {
            let ratio = match at.ratio_error {
                Some(error) => format!("{:.3} ± {:.3}", at.ratio(), error),
                None => format!("{:.3}", at.ratio()),
            };
            let within = at.within.map_or_else(|| "n/a".into(), |x| significant(x, 3));
            [
                at.realizations.to_string(),
                significant(at.rmse, 4),
                significant(at.predicted, 4),
                ratio,
                within,
            ]
        });
        table(["R", "rmse of P", "predicted", "ratio", "variance within lags"], rows)
    }

    /// Logits of Gaussian queries and keys.
    fn logit_table(&self) -> Vec<String> {
        let rows = self.measured.iter().map(|at| {
            let (measured, closed, naive) = at.exponential;
            [
                at.realizations.to_string(),
                significant(at.logit[0], 4),
                significant(at.logit[1], 4),
                significant(measured, 4),
                closed.map_or_else(|| "∞".into(), |x| significant(x, 4)),
                significant(naive, 4),
            ]
        });
        table(["R", "logit noise", "predicted", "mean e^logit", "closed form", "e^(mean logit)"], rows)
    }

    fn json(&self) -> serde_json::Value {
        let info = self.backend.info();
        let code = self.subject.encoding.code();
        json!({
            "kind": match self.args.kind { KindArg::Sine => "sine", KindArg::Conv => "conv" },
            "code": self.code(),
            "heads": code.heads(),
            "width": code.width(),
            "parameters": self.subject.encoding.parameters(),
            "tokens": self.subject.positions.sides(),
            "gate": self.args.gate,
            "mode": Mode::ALL[self.args.mode.number() as usize].0,
            "seed": self.args.seed,
            "seeds": self.args.seeds,
            "device": { "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver },
            "template": self.subject.fit.as_ref().map(|fit| json!({
                "target": fit.target, "residual": fit.residual, "noise_price": fit.price,
            })),
            "slope": slope(self.measured),
            "rows": self.measured.iter().map(|at| json!({
                "realizations": at.realizations,
                "rmse": at.rmse,
                "predicted": at.predicted,
                "ratio": at.ratio(),
                "ratio_standard_error": at.ratio_error,
                "variance_within_lags": at.within,
                "logit_std": at.logit[0],
                "logit_std_predicted": at.logit[1],
                "mean_exponential": at.exponential.0,
                "mean_exponential_closed_form": at.exponential.1,
                "mean_exponential_naive": at.exponential.2,
            })).collect::<Vec<_>>(),
            "seconds": self.took,
            "out": self.args.out.display().to_string(),
            "raw": self.args.raw.as_ref().map(|raw| raw.display().to_string()),
        })
    }
}

/// Columns that line up, numbers to the right.
fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> Vec<String> {
    let all: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{}{cell}", " ".repeat(width - cell.chars().count())))
            .collect();
        cells.join("   ")
    };
    all.iter().map(line).collect()
}
