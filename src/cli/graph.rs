//! `wgattn graph`: what can be said of a network in a file, as lines or as JSON, and its picture, coloured by a mask's row.

use super::node_link::{self, Row};
use super::on_graph::{weighed_json, weighed_lines};
use super::{Failure, Outcome, keep_input, notice, open_device, print_line};
use crate::mask::network::NetworkMaskSpec;
use crate::numbers::significant;
use crate::topology::read::{Loaded, Numbering, Options, SAYS_ITSELF, is_list, read};
use crate::vision::overlay::{check_target, save_picture};
use crate::vision::scene::{Weighed, mask_rows};
use serde_json::json;
use std::path::PathBuf;

/// Most pixels along a side of the picture.
const MOST_SIZE: u32 = 8192;

/// Arguments of `wgattn graph`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Edge list (csv, tsv, txt, edges, el), Matrix Market (mtx), GraphML or OBJ mesh
    file: PathBuf,
    /// Edges of a list lead one way only
    #[arg(long)]
    directed: bool,
    /// What nodes of a list are called [default: zero]
    #[arg(long, value_enum)]
    numbering: Option<NumberingArg>,
    /// Nodes of a list, where more exist than have edges
    #[arg(long)]
    nodes: Option<usize>,
    /// Picture to write: nodes as dots, edges as lines; places are the file's, or found by forces
    #[arg(long)]
    out: Option<PathBuf>,
    /// Pixels along the sides of the drawing; a mask's bar of colours stands beside it
    #[arg(long, default_value_t = 900, requires = "out")]
    size: u32,
    /// Colour nodes by a row of this mask: diffusion:t=…, communicability:t=…, walk:nodes=…,lambda=…, pagerank:restart=…, steps:p=…,
    /// tree:rate=…, spd:profile=…,size=…, as `wgattn mask` takes them
    #[arg(long, requires_all = ["out", "node"])]
    mask: Option<NetworkMaskSpec>,
    /// The node whose row it is: its number, or its name where the file has names
    #[arg(long, requires = "mask", allow_hyphen_values = true)]
    node: Option<String>,
    /// Device for the row: auto, cpu, cuda:0, or the index, name or backend of an adapter
    #[arg(long, default_value = "auto", value_parser = super::device_word)]
    device: String,
    #[command(flatten)]
    tune: super::tune::TuneArg,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum NumberingArg {
    /// Numbers from 0
    Zero,
    /// Numbers from 1
    One,
    /// Any words
    Names,
}

/// The node that is meant; names come before numbers.
fn node_of(loaded: &Loaded, asked: &str, one_based: bool) -> Result<u32, Failure> {
    if let Some(at) = loaded.names.iter().position(|name| name == asked) {
        return Ok(at as u32);
    }
    let n = loaded.network.nodes();
    let first = usize::from(one_based);
    let number = asked.parse::<usize>().ok().and_then(|i| i.checked_sub(first)).filter(|i| *i < n);
    number.map(|i| i as u32).ok_or_else(|| {
        let names = match loaded.names.first() {
            Some(name) => format!(", or a name such as {name:?}"),
            None => String::new(),
        };
        let last = n - 1 + first;
        Failure(format!(
            "--node {asked}: expected a number from {first} to {last}{names}; correct it, or see what the file holds without --node"
        ))
    })
}

/// The row of the mask that is asked for.
fn row(args: &Args, loaded: &Loaded) -> Result<Option<(u32, Weighed)>, Failure> {
    let (Some(mask), Some(asked)) = (&args.mask, &args.node) else { return Ok(None) };
    let node = node_of(loaded, asked, matches!(args.numbering, Some(NumberingArg::One)))?;
    let made = mask.operator(&loaded.network)?;
    let backend = open_device(&args.device, args.tune)?;
    Ok(Some((node, mask_rows(backend.as_ref(), &made, &[node])?)))
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    if let Some(out) = &args.out {
        check_target(out)?;
        keep_input(&args.file, out)?;
        if !(1..=MOST_SIZE).contains(&args.size) {
            return Err(Failure(format!("--size {}: expected 1 to {MOST_SIZE} pixels", args.size)));
        }
    }
    let numbering = match args.numbering {
        None | Some(NumberingArg::Zero) => Numbering::Zero,
        Some(NumberingArg::One) => Numbering::One,
        Some(NumberingArg::Names) => Numbering::Names,
    };
    if let (Some(NumberingArg::Zero), false) = (args.numbering, is_list(&args.file)) {
        return Err(Failure(format!(
            "options of {}: expected {SAYS_ITSELF}, got --numbering zero; leave it out",
            args.file.display()
        )));
    }
    let loaded = read(&args.file, &Options { directed: args.directed, numbering, nodes: args.nodes })?;
    let network = &loaded.network;
    if network.nodes() == 0 {
        return Err(Failure(format!(
            "{}: expected at least one node, got an empty graph; add an edge, or give --nodes",
            args.file.display()
        )));
    }
    let row = row(args, &loaded)?;
    if let Some(out) = &args.out {
        let shown = row
            .as_ref()
            .and_then(|(node, weighed)| Some(Row { node: *node, weights: weighed.rows.first()? }));
        let mut notices = Vec::new();
        let picture = node_link::draw(&loaded, shown.as_ref(), args.size, &mut notices)?;
        notices.iter().for_each(notice);
        save_picture(&picture, out)?;
    }
    let known = network.statistics();
    let components = network.components();
    let mut sizes = vec![0_usize; components.count];
    components.of.iter().for_each(|c| sizes[*c as usize] += 1);
    let largest = sizes.into_iter().max().unwrap_or_default();
    let weights = network.edges().map(|e| e.2).fold(None, |span: Option<(f32, f32)>, w| {
        Some(span.map_or((w, w), |(least, most)| (least.min(w), most.max(w))))
    });
    let (short, long) = known.diameter;
    let (least, mean, greatest) = known.degree;
    if args.json {
        let report = json!({
            "file": args.file.display().to_string(),
            "nodes": known.nodes,
            "edges": known.edges,
            "loops": known.loops,
            "directed": !known.undirected,
            "weights": weights.map(|(least, most)| json!({ "least": least, "greatest": most })),
            "components": known.components,
            "largest_component": largest,
            "isolated": known.isolated,
            "degree": { "least": least, "mean": mean, "greatest": greatest },
            "bandwidth": known.bandwidth,
            "diameter": { "at_least": short, "at_most": long },
            "mask": args.mask.as_ref().map(ToString::to_string),
            "node": row.as_ref().map(|(node, _)| node),
            "mask_on_graph": row.as_ref().map(|(_, weighed)| weighed_json(weighed, None)),
            "out": args.out.as_ref().map(|out| out.display().to_string()),
        });
        return print_line(&serde_json::to_string_pretty(&report)?);
    }
    let kind = if known.undirected { "undirected" } else { "directed" };
    let mut lines = vec![
        format!("nodes        {}, {} isolated", known.nodes, known.isolated),
        format!("edges        {} {kind}, loops {}", known.edges, known.loops),
        format!("components   {}, the largest of {largest} nodes", known.components),
        format!("degree       {least} to {greatest}, mean {}", significant(mean, 3)),
        format!("bandwidth    {}", known.bandwidth),
    ];
    if let Some((least, most)) = weights {
        let word = |w: f32| significant(f64::from(w), 4);
        lines.push(format!("weights      {} to {}", word(least), word(most)));
    }
    let span = if short == long { short.to_string() } else { format!("{short} to {long}") };
    lines.push(format!("diameter     {span} steps"));
    if let (Some(mask), Some((node, weighed))) = (&args.mask, &row) {
        let called = loaded.names.get(*node as usize).map_or_else(String::new, |name| format!(" ({name})"));
        lines.push(format!("mask         {mask}, row of node {node}{called}"));
        lines.extend(weighed_lines(weighed).iter().map(|line| format!("             {line}")));
    }
    lines.extend(args.out.iter().map(|out| format!("             {}", out.display())));
    print_line(&lines.join("\n"))
}
