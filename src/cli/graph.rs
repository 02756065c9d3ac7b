//! `wgattn graph`: what can be said of a network in a file, as lines or as JSON.

use super::{Failure, Outcome, print_line};
use crate::numbers::significant;
use crate::topology::read::{Numbering, Options, read};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `wgattn graph`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Edge list (csv, tsv, txt, edges, el), Matrix Market (mtx), GraphML or OBJ mesh
    file: PathBuf,
    /// Edges of a list lead one way only
    #[arg(long)]
    directed: bool,
    /// What nodes of a list are called
    #[arg(long, value_enum, default_value = "zero")]
    numbering: NumberingArg,
    /// Nodes of a list, where more exist than have edges
    #[arg(long)]
    nodes: Option<usize>,
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

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    let numbering = match args.numbering {
        NumberingArg::Zero => Numbering::Zero,
        NumberingArg::One => Numbering::One,
        NumberingArg::Names => Numbering::Names,
    };
    let loaded = read(&args.file, &Options { directed: args.directed, numbering, nodes: args.nodes })?;
    let network = &loaded.network;
    if network.nodes() == 0 {
        return Err(Failure(format!(
            "{}: expected at least one node, got an empty graph; add an edge, or give --nodes",
            args.file.display()
        )));
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
    print_line(&lines.join("\n"))
}
