//! `wgattn bench`: times kernels as users run them, beside the device's own peaks and the error against f64.

mod compare;
mod graphs;
mod positions;
mod rows;
mod suites;

use super::{Failure, Outcome, notice, open_device, print_line, progress, stage};
use crate::backend::{Backend, DeviceKind};
use crate::bench::{
    self, LARGE, MaskedPoint, Options, Peaks, Point, Row, Scaling, TABLES, fourier_slope, measure,
};
use crate::graph::human_bytes;
use crate::kernel::{Case, KernelSpec};
use crate::words::{counted, one_line};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Options of measuring, which a list of rows would not look at.
const MEASURING: [&str; 10] = [
    "device",
    "backend",
    "tune",
    "seconds",
    "order_seed",
    "cool_down",
    "max_dispatch_ms",
    "tokens",
    "export",
    "baseline",
];

/// Arguments of `wgattn bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    other: Option<compare::Command>,
    /// Parts of kernels' names (`probe` for the probes themselves) and of these suites: `crossover`, attention of all kinds over tokens;
    /// `frame`, a frame of the explorer; `embedding`, what attention costs a host. Or one of these tables: `scaling` for time and memory of Nyström
    /// attention over tokens, `masked` for both ways of masked attention over tokens, `graph` for masks on graphs and trees,
    /// `position` for position codes
    filter: Vec<String>,
    /// auto, all, cpu, cuda:0 (cuda:0:tf32, cuda:0:bf16: with products in that precision), or the index, name or backend of an adapter (see `wgattn devices`); several with commas
    #[arg(long, value_delimiter = ',', value_parser = super::device_word)]
    device: Vec<String>,
    /// Only devices of these backends: vulkan, dx12, metal, gl, cuda, cpu; several with commas. Without --device, all of them
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    // Rows in which it chose other variants are measured both ways.
    #[command(flatten)]
    tune: super::tune::TuneArg,
    /// Variant to hold kernels to, or all for a row per variant that suits
    #[arg(long)]
    variant: Option<String>,
    /// Part of a case's name
    #[arg(long)]
    case: Option<String>,
    /// A short run of a fixed, representative set of rows, or of the kernels that were asked for
    #[arg(long)]
    quick: bool,
    /// Print the rows that would run, and run nothing
    #[arg(long, conflicts_with_all = MEASURING)]
    list: bool,
    /// Print what each number means, and run nothing; takes nothing else
    #[arg(long, exclusive = true)]
    describe: bool,
    /// Numbers of tokens to run cases and suites at instead of their own: 4k or 1k..1M (doubling) or 1k,3k
    #[arg(long, value_parser = rows::parse_sizes, allow_hyphen_values = true)]
    n: Option<rows::Sizes>,
    /// Numbers of landmarks
    #[arg(long, value_parser = rows::parse_sizes, allow_hyphen_values = true)]
    landmarks: Option<rows::Sizes>,
    /// Numbers of heads
    #[arg(long, value_parser = rows::parse_sizes, allow_hyphen_values = true)]
    heads: Option<rows::Sizes>,
    /// Coordinates of a head
    #[arg(long = "d", value_name = "D", value_parser = rows::parse_sizes, allow_hyphen_values = true)]
    head_dim: Option<rows::Sizes>,
    /// Least seconds per row: 1 if not given (0.2 with --quick, 0.5 for tables), and 10 runs at least
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Order of the rows; another one for each run if not given
    #[arg(long)]
    order_seed: Option<u64>,
    /// Seconds to wait between rows, for devices that heat up
    #[arg(long, default_value_t = 0.0, value_parser = parse_seconds, value_name = "SECONDS")]
    cool_down: f64,
    /// Cut work so that no dispatch and no submission takes longer than about this; probes of the roofline take 50 ms where that is longer
    #[arg(long, value_parser = parse_milliseconds, value_name = "MS")]
    max_dispatch_ms: Option<f64>,
    /// Token counts of `scaling` (4096 to 262144 if not given), of `masked` (256 to 65536) and of `position` (1024 to 65536)
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write FILE.json (the whole document), FILE.csv (rows and points), FILE.html (a report that opens offline) or FILE.md (tables), from the
    /// beginning and anew after every row; may be given several times
    #[arg(long, value_name = "FILE")]
    export: Vec<PathBuf>,
    /// What an earlier run exported as .json or .html: this one is put beside it afterwards, in .json, .html and .md exports too
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

impl Args {
    /// The one device of a table.
    fn only_device(&self) -> Result<&str, Failure> {
        match &self.device[..] {
            [] => Ok("auto"),
            [device] if !device.eq_ignore_ascii_case("all") => Ok(device),
            several => Err(Failure(format!(
                "--device {}: `bench {}` runs on one device; name one",
                several.join(","),
                self.filter.join(" ")
            ))),
        }
    }

    /// Least seconds of a measurement in a table.
    fn table_seconds(&self) -> f64 {
        self.seconds.unwrap_or(0.5)
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    match seconds.is_finite() && (0.0..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("expected 0 to 3600".into()),
    }
}

fn parse_milliseconds(text: &str) -> Result<f64, String> {
    let milliseconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    match (1.0..=60_000.0).contains(&milliseconds) {
        true => Ok(milliseconds),
        false => Err("expected 1 to 60000".into()),
    }
}

/// Refuses options that a table would not look at.
fn refuse(args: &Args, what: &str) -> Outcome {
    let given = [
        ("--variant", args.variant.is_some()),
        ("--case", args.case.is_some()),
        ("--export", !args.export.is_empty()),
        ("--baseline", args.baseline.is_some()),
        ("--backend", !args.backend.is_empty()),
        ("--quick", args.quick),
        ("--list", args.list),
        ("--n", args.n.is_some()),
        ("--landmarks", args.landmarks.is_some()),
        ("--heads", args.heads.is_some()),
        ("--d", args.head_dim.is_some()),
        ("--order-seed", args.order_seed.is_some()),
        ("--cool-down", args.cool_down > 0.0),
        ("--max-dispatch-ms", args.max_dispatch_ms.is_some()),
        ("--tokens", what == "graph" && !args.tokens.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure(format!(
            "{name}: has no meaning for `bench {what}`, whose rows are its own; leave it out"
        ))),
        None => Ok(()),
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    if let Some(compare::Command::Compare(args)) = &args.other {
        return compare::run(args);
    }
    if args.describe {
        return rows::describe();
    }
    let table = args.filter.iter().find(|f| TABLES.contains(&f.as_str()));
    match (table.map(String::as_str), &args.filter[..]) {
        (None, _) if !args.tokens.is_empty() => Err(Failure(format!(
            "--tokens: belongs to the tables [{}]; for kernels give --n",
            TABLES.join(", ")
        ))),
        (None, _) if args.list => rows::list(args),
        (None, _) => rows::run(args),
        (Some(table), [_]) => {
            refuse(args, table)?;
            match table {
                "scaling" => scaling(args),
                "masked" => masked(args),
                "graph" => graphs::run(args),
                _ => positions::run(args),
            }
        }
        (Some(table), _) => Err(Failure(format!(
            "`bench {table}` is a table of its own; give it alone, without other kernels"
        ))),
    }
}

/// The reference has no peaks worth comparing with.
fn peaks(backend: &dyn Backend, options: Options) -> Result<Peaks, Failure> {
    match backend.info().kind {
        DeviceKind::Reference => Ok(Peaks::default()),
        _ => {
            stage(&format!("measuring the roofline of {}", backend.info().name));
            Ok(Peaks::of(backend, options, &mut |what| progress(&format!("roofline: {what}")))?)
        }
    }
}

/// A row of a table.
fn row(backend: &dyn Backend, spec: &'static KernelSpec, case: &Case, options: Options) -> Row {
    Row {
        kernel: spec.name.into(),
        case: case.name.into(),
        variant: None,
        outcome: measure(backend, spec, case, options).map_err(one_line),
        lost: false,
    }
}

fn device_json(backend: &dyn Backend) -> Value {
    let info = backend.info();
    json!({ "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver })
}

fn device_line(backend: &dyn Backend) -> String {
    let info = backend.info();
    let badge = if info.kind == DeviceKind::Software { " · software driver: judge by CPU time" } else { "" };
    let parts = [info.name, info.backend, info.driver].into_iter().filter(|part| !part.is_empty());
    format!("{}{badge}", parts.collect::<Vec<_>>().join(" · "))
}

/// Time and memory over tokens.
fn scaling(args: &Args) -> Outcome {
    let backend = open_device(args.only_device()?, args.tune)?;
    if !args.json {
        print_line(&device_line(backend.as_ref()))?;
        print_line(
            "nystrom_attention, 8 heads, d = 32, 49 landmarks; time of the steps that grow with the tokens",
        )?;
    }
    let mut scaling = Scaling::default();
    let mut failed = Vec::new();
    let counts = or_these(&args.tokens, &[4096, 16_384, 65_536, 262_144]);
    for &tokens in counts {
        progress(&counted(tokens, "token", "tokens"));
        let point = Point::measure(backend.as_ref(), tokens, args.table_seconds().max(2.0));
        progress("");
        match point {
            Ok(point) => {
                if !args.json {
                    print_line(&point_line(&point))?;
                }
                scaling.points.push(point);
            }
            Err(error) => {
                let failure = Failure::from(error).0;
                notice(format_args!("{}: {failure}", counted(tokens, "token", "tokens")));
                failed.push(json!({ "tokens": tokens, "failure": failure }));
            }
        }
    }
    let slopes = [
        ("time", scaling.time_slope()),
        ("clock_time", scaling.clock_slope()),
        ("memory", scaling.memory_slope()),
        ("memory_without_slices", scaling.unsliced_slope()),
    ];
    if args.json {
        let points: Vec<Value> =
            scaling.points.iter().map(point_json).chain(failed.iter().cloned()).collect();
        let slopes: serde_json::Map<String, Value> =
            slopes.iter().map(|(n, s)| ((*n).into(), json!(s))).collect();
        let all = json!({ "device": device_json(backend.as_ref()), "points": points, "slopes": slopes });
        print_line(&serde_json::to_string_pretty(&all)?)?;
    } else {
        let say = |(name, slope): &(&str, Option<f64>)| {
            let value = slope.map_or_else(|| "needs two measurable points".into(), |s| format!("{s:.3}"));
            format!("{} {value}", name.replace('_', " "))
        };
        print_line(&format!(
            "slopes in logarithms: {}",
            slopes.iter().map(say).collect::<Vec<_>>().join(", ")
        ))?;
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(Failure(format!(
            "{count} of {} failed",
            counted(counts.len(), "token count", "token counts")
        ))),
    }
}

/// All ways of masked attention over tokens, whether the right one would be taken, and how close its transforms come to the
/// device's bound.
fn masked(args: &Args) -> Outcome {
    let backend = open_device(args.only_device()?, args.tune)?;
    if !args.json {
        print_line(&device_line(backend.as_ref()))?;
        print_line("masked_attention, one head, r = d = 32; processor time on software drivers")?;
    }
    let mut points: Vec<MaskedPoint> = Vec::new();
    for &tokens in or_these(&args.tokens, &[256, 1024, 4096, 16_384, 65_536]) {
        progress(&counted(tokens, "token", "tokens"));
        let point = MaskedPoint::measure(backend.as_ref(), tokens, args.table_seconds().max(1.0));
        progress("");
        let point = point?;
        if !args.json {
            print_line(&masked_line(&point))?;
        }
        points.push(point);
    }
    // The transforms behind it, against what the device can do at best.
    let options = Options { seconds: args.table_seconds(), ..Options::default() };
    let peaks = peaks(backend.as_ref(), options)?;
    let mut rows: Vec<Row> = Vec::new();
    for (kernel, name) in TRANSFORMS {
        progress(&format!("{kernel} {name}"));
        for (spec, case) in bench::select(&[kernel.to_string()], Some(name)) {
            if (spec.name, case.name) == (kernel, name) {
                rows.push(row(backend.as_ref(), spec, case, options));
            }
        }
        progress("");
    }
    let slope = fourier_slope(&points);
    let worst = points.iter().filter_map(MaskedPoint::regret).reduce(f64::max);
    if args.json {
        let all = json!({
            "device": device_json(backend.as_ref()),
            "points": points.iter().map(masked_json).collect::<Vec<_>>(),
            "fourier_slope": slope,
            "worst_choice": worst,
            "peaks": peaks.json(),
            "transforms": rows.iter().map(|r| r.json(&peaks)).collect::<Vec<_>>(),
        });
        return print_line(&serde_json::to_string_pretty(&all)?);
    }
    let or_none = |x: Option<f64>| x.map_or_else(|| "n/a".to_string(), |x| format!("{x:.2}"));
    print_line(&format!(
        "slope of the Fourier way in logarithms, from {LARGE} tokens on, {}; the way taken is at worst {} times as slow as the better one",
        or_none(slope),
        or_none(worst)
    ))?;
    print_line(&peaks.text())?;
    rows.iter().try_for_each(|row| print_line(&row.text(&peaks)))
}

/// Batched transforms and convolutions of common sizes: lines of 4096 × 512 channels, planes × 1024 channels.
const TRANSFORMS: [(&str, &str); 4] = [
    ("fft", "lines_512"),
    ("toeplitz_product", "line_4096"),
    ("toeplitz_product", "plane_64x64_1024"),
    ("toeplitz_product", "plane_56x56_1024"),
];

fn masked_line(p: &MaskedPoint) -> String {
    let time = |t: Option<f64>| t.map_or_else(|| "not run".into(), |t| format!("{:.2} ms", 1e3 * t));
    let refused = p.refused.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    format!(
        "{:>8} tokens  pairs {}, fourier {}, fused {}; takes {}; {} of {} rows again; 8 heads hold {}{refused}",
        p.tokens(),
        time(p.pairs),
        time(p.fourier),
        time(p.fused),
        p.plan,
        p.again.0,
        p.again.1,
        human_bytes(p.memory_of_eight)
    )
}

fn masked_json(p: &MaskedPoint) -> Value {
    json!({
        "sides": p.sides,
        "pairs_seconds": p.pairs,
        "fourier_seconds": p.fourier,
        "fused_seconds": p.fused,
        "taken": p.plan.chosen.to_string(),
        "estimated_pairs_seconds": 1e-3 * p.plan.pairs_ms,
        "estimated_fourier_seconds": 1e-3 * p.plan.fourier_ms,
        "estimated_for_fused": p.plan.fused,
        "rows_computed_again": p.again.0,
        "rows": p.again.1,
        "bytes_of_eight_heads": p.memory_of_eight,
        "refused": p.refused,
    })
}

fn or_these<'a>(asked: &'a [u32], otherwise: &'a [u32]) -> &'a [u32] {
    if asked.is_empty() { otherwise } else { asked }
}

fn point_line(p: &Point) -> String {
    let cpu = p.cpu_seconds.map_or_else(String::new, |s| format!(", {:.1} ms CPU", 1e3 * s));
    let other = p.other_seconds.map_or_else(String::new, |s| format!(", other steps {:.1} ms", 1e3 * s));
    let unsliced = p.unsliced.map_or_else(String::new, |b| format!(" ({} without slices)", human_bytes(b)));
    format!(
        "{:>8} tokens  {:.1} ms{cpu}{other}; {} transient{unsliced}, {} staging, {} inputs and outputs",
        p.tokens,
        1e3 * p.seconds,
        human_bytes(p.memory.transient),
        human_bytes(p.memory.staging),
        human_bytes(p.memory.external)
    )
}

fn point_json(p: &Point) -> Value {
    json!({
        "tokens": p.tokens,
        "seconds": p.seconds,
        "cpu_seconds": p.cpu_seconds,
        "other_seconds": p.other_seconds,
        "wall_seconds": p.wall_seconds,
        "samples": p.samples,
        "memory_bytes": {
            "transient": p.memory.transient,
            "transient_without_slices": p.unsliced,
            "staging": p.memory.staging,
            "inputs_and_outputs": p.memory.external,
        },
    })
}
