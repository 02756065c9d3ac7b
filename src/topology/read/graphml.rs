//! GraphML: nodes by their ids, edges with weights, and coordinates in data called `x`, `y`, `z`.
//!
//! `edgedefault` decides whether edges lead one way, an edge's own `directed` overrules it. Data called `weight` (or `value`) are weights; a
//! node's `label` or `name` is its name, or else its id. Nested graphs, ports and hyperedges are refused.

use super::{Loaded, Spot, quoted};
use crate::error::Result;
use crate::topology::Network;
use roxmltree::{Document, Node};
use std::collections::HashMap;

/// The network of a GraphML file; `file` is what errors call it.
///
/// Errors: [`crate::Error::Value`] with file, line and column for XML that is broken or cut short, unknown nodes, and weights that no edge may
/// have.
pub fn graphml(text: &str, file: &str) -> Result<Loaded> {
    let document = Document::parse(text).map_err(|e| {
        let pos = e.pos();
        let mut spot = Spot { file, line: pos.row as usize, column: pos.col as usize };
        // The library has no place for where the file ends.
        if matches!(e, roxmltree::Error::UnexpectedEndOfStream) {
            spot.line = text.lines().count().max(1);
            spot.column = text.lines().last().map_or(0, |line| line.chars().count()) + 1;
        }
        if matches!(e, roxmltree::Error::DtdDetected) {
            return spot.error(
                "GraphML without a DTD",
                "a DTD",
                "take its <!DOCTYPE …> out: entities are not read",
            );
        }
        // The library names the place once more behind its words.
        let words = e.to_string();
        let words = words.split(" at ").next().unwrap_or(&words).to_owned();
        spot.error("well-formed XML", words, "repair the file, or fetch it again if it is cut short")
    })?;
    let spot = |at: usize| {
        let pos = document.text_pos_at(at);
        Spot { file, line: pos.row as usize, column: pos.col as usize }
    };
    let here = |node: Node<'_, '_>| spot(node.range().start);
    let named = |n: &Node<'_, '_>, name: &str| n.is_element() && n.tag_name().name() == name;
    let root = document.root_element();
    let graph = root.children().find(|n| named(n, "graph")).filter(|_| named(&root, "graphml"));
    let graph = graph.ok_or_else(|| {
        here(root).error(
            "<graphml> with a <graph>",
            format!("<{}>", root.tag_name().name()),
            "use another file",
        )
    })?;
    // What each key's data are called.
    let keys: HashMap<&str, String> = root
        .children()
        .filter(|n| named(n, "key"))
        .filter_map(|n| Some((n.attribute("id")?, n.attribute("attr.name")?.to_lowercase())))
        .collect();
    let data = |node: Node<'_, '_>, wanted: &[&str]| -> Option<(usize, String)> {
        node.children().filter(|n| named(n, "data")).find_map(|d| {
            let key = d.attribute("key")?;
            let name = keys.get(key).map_or(key, String::as_str);
            let inner = d.first_child().map_or(d.range().start, |c| c.range().start);
            wanted.contains(&name).then(|| (inner, d.text().unwrap_or("").trim().to_owned()))
        })
    };
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let (mut names, mut places) = (Vec::new(), Vec::new());
    let mut dimensions = 0;
    for node in graph.children().filter(|n| named(n, "node")) {
        let id =
            node.attribute("id").ok_or_else(|| here(node).error("a node's id", "none", "give it one"))?;
        if numbers.insert(id, names.len() as u32).is_some() {
            return Err(here(node).error("an id of its own", quoted(id), "rename one of the two nodes"));
        }
        if let Some(inner) = node.children().find(|n| named(n, "graph")) {
            return Err(here(inner).error(
                "nodes without networks of their own",
                "<graph>",
                "flatten the file",
            ));
        }
        names.push(data(node, &["label", "name"]).map_or_else(|| id.to_owned(), |d| d.1));
        let mut place = [0.0; 3];
        for (a, name) in ["x", "y", "z"].iter().enumerate() {
            if let Some((at, text)) = data(node, &[name]) {
                place[a] = spot(at).coordinate(&text)?;
                dimensions = dimensions.max(a + 1);
            }
        }
        places.push(place);
    }
    let directed = graph.attribute("edgedefault") == Some("directed");
    let (mut edges, mut one_way) = (Vec::new(), Vec::new());
    for child in graph.children().filter(Node::is_element) {
        if named(&child, "hyperedge") {
            return Err(here(child).error("edges between two nodes", "<hyperedge>", "split it into edges"));
        }
        if !named(&child, "edge") {
            continue;
        }
        let mut ends = [0; 2];
        for (end, name) in ends.iter_mut().zip(["source", "target"]) {
            let id = child.attribute(name);
            let found = id.and_then(|id| numbers.get(id));
            let at = child.attribute_node(name).map_or(child.range().start, |a| a.range_value().start);
            *end = *found.ok_or_else(|| {
                let got = id.map_or("none".into(), quoted);
                spot(at).error(format!("a node as {name}"), got, "add the node, or remove the edge")
            })?;
        }
        let weight = match data(child, &["weight", "value"]) {
            Some((at, text)) => spot(at).weight(&text)?,
            None => 1.0,
        };
        let way = child.attribute("directed").map_or(directed, |d| d == "true" || d == "1");
        let list = if way { &mut one_way } else { &mut edges };
        list.push((ends[0], ends[1], weight));
    }
    let nodes = names.len();
    let mut network = Network::undirected_weighted(nodes, &edges)?;
    if !one_way.is_empty() {
        one_way.extend(network.edges());
        network = Network::directed_weighted(nodes, &one_way)?;
    }
    // One coordinate is a layout of nothing.
    let dimensions = if dimensions < 2 { 0 } else { dimensions };
    if dimensions == 0 {
        places.clear();
    }
    Ok(Loaded { network, names, places, dimensions })
}
