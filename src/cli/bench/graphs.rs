//! `wgattn bench graph`: what masks on graphs and trees cost, against the device's own bound and over the number of nodes.
//!
//! Five tables: a step of diffusion on a grid and on sparse rows; the diffusion of one clicked pixel over a picture, at three sizes; trees
//! from 10⁴ to 10⁶ nodes; reading rows in such an order; a general function of the distance in trees. Everything is made up here, so that any machine measures the same.

use super::{Args, device_json, device_line, peaks, progress, row};
use crate::bench::{self, OperatorPoint, Options, Peaks, Row, log_log_slope};
use crate::cli::{Outcome, open_device, print_line};
use crate::error::Result;
use crate::graph::human_bytes;
use crate::mask::network::{Diffusion, Steps};
use crate::mask::{MaskOperator, TreeMask};
use crate::topology::build::{Picture, Reach, caterpillar, random_tree};
use crate::topology::tree::Pieces;
use crate::topology::{Forest, Laplacian, Network};
use crate::words::counted;
use serde_json::{Value, json};
use std::sync::Arc;

/// The step of a series on a grid of 512 × 512 nodes with 64 channels, without and with lists of neighbours.
const STEPS: [&str; 2] = ["stencil_step", "chebyshev_step"];
/// Sides of the pictures.
const SIDES: [u32; 3] = [256, 512, 1024];
/// Time and tolerance of the diffusion over them.
const PICTURE: (f64, f64) = (100.0, 1e-3);
/// Nodes of the trees.
const NODES: [usize; 5] = [10_000, 30_000, 100_000, 300_000, 1_000_000];
/// Channels of the trees: a row of the mask, and what attention of a few features has.
const CHANNELS: [u32; 2] = [1, 8];

/// A table of points with the exponent of their time.
struct Table {
    name: String,
    points: Vec<OperatorPoint>,
}

impl Table {
    fn lines(&self, peaks: &Peaks) -> Vec<String> {
        let mut lines: Vec<String> = self.points.iter().map(|p| line(&self.name, p, peaks)).collect();
        if let Some(slope) = OperatorPoint::slope(&self.points) {
            let memory: Vec<_> = self.points.iter().map(|p| (f64::from(p.nodes), p.memory as f64)).collect();
            let memory = log_log_slope(&memory).map_or_else(String::new, |m| format!(", of memory {m:.2}"));
            lines.push(format!("{}: slope of time in logarithms {slope:.2}{memory}", self.name));
        }
        lines
    }

    fn json(&self, peaks: &Peaks) -> Value {
        let point = |p: &OperatorPoint| {
            let bound = p.bound(peaks);
            json!({
                "nodes": p.nodes, "channels": p.channels, "mask": p.mask, "dispatches": p.dispatches,
                "seconds": p.seconds.median, "cpu_seconds": p.cpu_seconds.map(|s| s.median),
                "first_seconds": p.first_seconds, "bytes": p.memory,
                "bound_seconds": bound.map(|(b, _)| b.seconds), "bound_by": bound.map(|(b, _)| b.limit.to_string()),
                "share_of_bound": bound.map(|(_, share)| share),
            })
        };
        json!({
            "name": self.name,
            "time_slope": OperatorPoint::slope(&self.points),
            "points": self.points.iter().map(point).collect::<Vec<_>>(),
        })
    }
}

fn line(name: &str, p: &OperatorPoint, peaks: &Peaks) -> String {
    let cpu = p.cpu_seconds.map_or_else(String::new, |s| format!(", {:.2} ms CPU", 1e3 * s.median));
    let share = p.bound(peaks).map_or_else(String::new, |(bound, share)| {
        format!(", {:.0} % of the bound by {}", 100.0 * share, bound.limit)
    });
    format!(
        "{name}: {} nodes × {}: {:.2} ms{cpu}{share}; {} dispatches, {}, first run {:.0} ms with compilation; {}",
        p.nodes,
        p.channels,
        1e3 * p.seconds.median,
        p.dispatches,
        human_bytes(p.memory),
        1e3 * p.first_seconds,
        p.mask,
    )
}

/// A picture of soft blobs with sharp borders, three numbers per token.
fn colours(side: u32) -> Vec<f32> {
    let at = |i: u32| {
        let (x, y) = ((i % side) as f32 / side as f32, (i / side) as f32 / side as f32);
        let wave = (9.0 * x).sin() * (7.0 * y).cos();
        [wave.signum() * 0.2 + 0.5, 0.1 * (5.0 * x).cos(), 0.1 * wave]
    };
    (0..side * side).flat_map(at).collect()
}

/// Diffusion over a picture whose links weaken with the difference of colours.
fn picture(side: u32) -> Result<Diffusion> {
    let colours = colours(side);
    let network = Picture::new(&colours, side as usize, side as usize)?.network(Reach::Corners, 8.0)?;
    let (t, rtol) = PICTURE;
    Diffusion::heat(network, Laplacian::Combinatorial, t, rtol)?.on_grid(side, side, Reach::Corners)
}

/// The shapes of trees that are timed.
#[derive(Clone, Copy)]
enum Shape {
    Random,
    /// The same with nodes numbered so that near ones lie near each other in memory.
    Ordered,
    Path,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Random => "random tree",
            Self::Ordered => "random tree numbered by its branches",
            Self::Path => "path",
        }
    }

    fn forest(self, nodes: usize) -> Result<Forest> {
        match self {
            Self::Random => random_tree(nodes, 1),
            Self::Ordered => {
                let random = random_tree(nodes, 1)?;
                random.renumbered(&Pieces::new(&random).order())
            }
            Self::Path => caterpillar(nodes, nodes),
        }
    }
}

type Boxed = Result<Box<dyn MaskOperator>>;

/// Runs the command.
pub(super) fn run(args: &Args) -> Outcome {
    let backend = open_device(args.only_device()?, args.tune)?;
    let options = Options { seconds: args.table_seconds(), ..Options::default() };
    progress("peaks");
    let peaks = peaks(backend.as_ref(), options)?;
    progress("");
    let say = |line: &str| if args.json { Ok(()) } else { print_line(line) };
    say(&device_line(backend.as_ref()))?;
    say(&peaks.text())?;

    let mut rows: Vec<Row> = Vec::new();
    for name in STEPS {
        progress(name);
        for (spec, case) in bench::select(&[name.to_string()], Some("grid_512x512")) {
            rows.push(row(backend.as_ref(), spec, case, options));
        }
        progress("");
    }
    rows.iter().try_for_each(|row| say(&row.text(&peaks)))?;
    let ratio = ratio(&rows);
    if let Some(ratio) = ratio {
        say(&format!("sparse rows take {ratio:.2} times as long as the grid's own kernel"))?;
    }

    let mut tables: Vec<Table> = Vec::new();
    let mut measured = |name: String, masks: &mut dyn Iterator<Item = Boxed>, c: u32| -> Outcome {
        let mut points = Vec::new();
        for mask in masks {
            progress(&name);
            points.push(OperatorPoint::measure(backend.as_ref(), mask?.as_ref(), c, options)?);
            progress("");
        }
        let table = Table { name, points };
        table.lines(&peaks).iter().try_for_each(|line| say(line))?;
        tables.push(table);
        Ok(())
    };
    let mut pictures = SIDES.iter().map(|&side| -> Boxed { Ok(Box::new(picture(side)?)) });
    measured("diffusion of one pixel over a picture".into(), &mut pictures, 1)?;
    for shape in [Shape::Random, Shape::Ordered, Shape::Path] {
        let exponential =
            |&n: &usize| -> Boxed { Ok(Box::new(TreeMask::exponential(shape.forest(n)?, 0.1)?)) };
        for channels in CHANNELS {
            let name =
                format!("exp(−0.1 distance), {}, {}", shape.name(), counted(channels, "channel", "channels"));
            measured(name, &mut NODES.iter().map(exponential), channels)?;
        }
    }
    // What a numbering costs by itself: every row read once, node by node along the tree's branches.
    let read_once = |&n: &usize| -> Boxed {
        let order = Pieces::new(&random_tree(n, 1)?).order();
        let edges: Vec<(u32, u32)> =
            order.iter().enumerate().map(|(spot, node)| (spot as u32, *node)).collect();
        Ok(Box::new(Steps::power(Network::directed(n, &edges)?, 1)?))
    };
    for channels in CHANNELS {
        let name =
            format!("rows of the random tree, each read once, {}", counted(channels, "channel", "channels"));
        measured(name, &mut NODES.iter().map(read_once), channels)?;
    }
    for shape in [Shape::Random, Shape::Path] {
        let general = |&n: &usize| -> Boxed {
            let forest = shape.forest(n)?;
            let f = |d: f64| (1.0 + 0.5 * (0.05 * d).cos()) / (1.0 + d);
            let f: Vec<f64> = (0..=forest.diameter()).map(|d| f(d.into())).collect();
            Ok(Box::new(TreeMask::of_distance(forest, &f)?))
        };
        measured(
            format!("any f(distance), {}", shape.name()),
            &mut NODES[..3].iter().map(general),
            CHANNELS[1],
        )?;
        let smooth = |&n: &usize| -> Boxed {
            Ok(Box::new(TreeMask::smooth(shape.forest(n)?, Arc::new(|d| 1.0 / (1.0 + d)))?))
        };
        measured(
            format!("1/(1 + distance), {}", shape.name()),
            &mut NODES[..3].iter().map(smooth),
            CHANNELS[1],
        )?;
    }
    if args.json {
        let all = json!({
            "device": device_json(backend.as_ref()),
            "peaks": peaks.json(),
            "steps": rows.iter().map(|r| r.json(&peaks)).collect::<Vec<_>>(),
            "rows_over_grid": ratio,
            "tables": tables.iter().map(|t| t.json(&peaks)).collect::<Vec<_>>(),
        });
        print_line(&serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

/// How much longer a step on sparse rows takes.
fn ratio(rows: &[Row]) -> Option<f64> {
    let time = |row: &Row| {
        let measured = row.outcome.as_ref().ok()?;
        Some(measured.cpu_seconds.unwrap_or(measured.seconds).median)
    };
    let [grid, sparse] = rows else { return None };
    Some(time(sparse)? / time(grid)?)
}
