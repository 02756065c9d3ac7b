//! OBJ meshes: vertices `v x y z` are nodes with places, sides of faces `f` and pieces of lines `l` are edges of weight 1, each once
//! however many faces share it. Other statements are passed over.

use super::{Loaded, Spot, quoted, words};
use crate::error::Result;
use crate::topology::Network;

/// The network of a mesh; `file` is what errors call it.
///
/// Errors: [`crate::Error::Value`] with file, line and column for vertices without three coordinates, faces of fewer than three corners, and
/// corners that are no vertex (they are counted from 1, or back from −1).
pub fn obj(text: &str, file: &str) -> Result<Loaded> {
    let mut places: Vec<[f32; 3]> = Vec::new();
    // Corners counted from 1 may name vertices that come later, so they are checked at the end.
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut latest: Option<(u32, Spot<'_>)> = None;
    for (i, line) in text.lines().enumerate() {
        let line_end = line.len() + 1;
        let line = line.split('#').next().unwrap_or("");
        let spot = |column: usize| Spot { file, line: i + 1, column };
        let mut fields = words(line);
        match fields.next().map(|f| f.1) {
            Some("v") => {
                let mut place = [0.0; 3];
                for x in &mut place {
                    let (column, text) = fields.next().unwrap_or((line_end, ""));
                    *x = spot(column).coordinate(text)?;
                }
                places.push(place);
            }
            Some(kind @ ("f" | "l")) => {
                let mut corners = Vec::new();
                for (column, text) in fields {
                    let number = text.split('/').next().unwrap_or("");
                    let expected = "a vertex, counted from 1 or back from −1";
                    let number = spot(column).integer(number, expected)?;
                    let vertex = match number {
                        1.. => u32::try_from(number - 1).ok(),
                        _ => usize::try_from(-number)
                            .ok()
                            .filter(|n| *n > 0)
                            .and_then(|n| places.len().checked_sub(n))
                            .map(|v| v as u32),
                    };
                    let vertex =
                        vertex.ok_or_else(|| spot(column).error(expected, quoted(text), "correct it"))?;
                    if latest.is_none_or(|(v, _)| v < vertex) {
                        latest = Some((vertex, spot(column)));
                    }
                    corners.push(vertex);
                }
                let least = if kind == "f" { 3 } else { 2 };
                if corners.len() < least {
                    let expected = format!("at least {least} vertices behind `{kind}`");
                    return Err(spot(line_end).error(expected, corners.len(), "complete or remove the line"));
                }
                edges.extend(corners.windows(2).map(|w| (w[0], w[1])));
                if kind == "f" {
                    edges.push((corners[corners.len() - 1], corners[0]));
                }
            }
            _ => {}
        }
    }
    if let Some((vertex, spot)) = latest.filter(|(v, _)| *v as usize >= places.len()) {
        let expected = format!("a vertex, 1 to {}", places.len());
        return Err(spot.error(
            expected,
            vertex + 1,
            "the file is cut short, or its faces belong to another",
        ));
    }
    for e in &mut edges {
        *e = (e.0.min(e.1), e.0.max(e.1));
    }
    edges.sort_unstable();
    edges.dedup();
    // A face may name a vertex twice; that is no edge.
    edges.retain(|e| e.0 != e.1);
    let network = Network::undirected(places.len(), &edges)?;
    Ok(Loaded { network, names: Vec::new(), places, dimensions: 3 })
}
