//! Masks and networks as they are written, and read again.

use super::options::{ABOVE_0, FROM_0, Options, RTOL};
use super::{GraphSpec, NetworkMaskSpec};
use crate::error::{Error, Result};
use crate::mask::Profile;
use crate::numbers::Short;
use crate::topology::Laplacian;
use crate::topology::build::Reach;
use crate::topology::declared::{Numbering, Options as Declared};
use crate::topology::kernel::Normalisation;
use crate::words::closest;
use std::fmt;
use std::str::FromStr;

impl NetworkMaskSpec {
    /// Kinds that this takes, for tests of what a mask's word is.
    pub const KINDS: [&str; 7] = ["diffusion", "communicability", "walk", "pagerank", "steps", "tree", "spd"];

    /// The same as they are written.
    pub(crate) const KNOWN: &str =
        "diffusion:t=…, communicability:t=…, walk:…, pagerank:…, steps:p=…, tree:…, spd:…";

    /// Whether the words begin as a mask on a network does.
    pub fn is_meant(text: &str) -> bool {
        Self::KINDS.contains(&text.split(':').next().unwrap_or_default().trim())
    }
}

impl fmt::Display for NetworkMaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile =
            |p: &Profile| Profile::ALL.iter().find(|(_, kind)| kind == p).map_or("", |(name, _)| *name);
        let tolerance = |rtol: &f64| if *rtol == RTOL { String::new() } else { format!(",rtol={rtol:e}") };
        match self {
            Self::Diffusion { t, laplacian, rtol } => {
                write!(f, "diffusion:t={}", Short(*t))?;
                if *laplacian != Laplacian::Combinatorial {
                    write!(f, ",laplacian={laplacian}")?;
                }
                f.write_str(&tolerance(rtol))
            }
            Self::Communicability { t, rtol } => {
                write!(f, "communicability:t={}{}", Short(*t), tolerance(rtol))
            }
            Self::Walk { nodes, lambda, normalise, sampled } => {
                let name = Normalisation::ALL
                    .iter()
                    .find(|(_, kind)| kind == normalise)
                    .map_or("", |(name, _)| *name);
                write!(f, "walk:nodes={nodes},lambda={},normalise={name}", Short(*lambda))?;
                sampled.map_or(Ok(()), |(walks, seed)| write!(f, ",walks={walks},seed={seed}"))
            }
            Self::PageRank { restart, rtol } => {
                write!(f, "pagerank:restart={}{}", Short(*restart), tolerance(rtol))
            }
            Self::Steps { p } => write!(f, "steps:p={p}"),
            Self::Tree { rate } => write!(f, "tree:rate={}", Short(*rate)),
            Self::TreeProfile { profile: p, size } => {
                write!(f, "tree:profile={},size={}", profile(p), Short(*size))
            }
            Self::ShortestPath { profile: p, size, hops } => {
                write!(f, "spd:profile={},size={}", profile(p), Short(*size))?;
                hops.map_or(Ok(()), |hops| write!(f, ",hops={hops}"))
            }
        }
    }
}

impl fmt::Display for GraphSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |reach: &Reach| if *reach == Reach::Sides { 4 } else { 8 };
        match self {
            Self::Image { sensitivity, reach, cut } => {
                write!(f, "image:sensitivity={},reach={}", Short(*sensitivity), number(reach))?;
                if *cut > 0.0 { write!(f, ",cut={}", Short(*cut)) } else { Ok(()) }
            }
            Self::Grid(reach) => write!(f, "grid{}", number(reach)),
            Self::Torus(reach) => write!(f, "torus{}", number(reach)),
            Self::File { path, options } if *options == Declared::default() => {
                write!(f, "{}", path.display())
            }
            Self::File { path, options } => write!(f, "{}:{options}", path.display()),
        }
    }
}

impl FromStr for NetworkMaskSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let options = |example| Options::of(kind, rest, example);
        let spec;
        match kind {
            "diffusion" => {
                let mut o = options("diffusion:t=100,laplacian=symmetric,rtol=1e-4")?;
                let t = o.number("t", None, FROM_0)?;
                spec = Self::Diffusion { t, laplacian: o.named("laplacian")?, rtol: o.tolerance()? };
                o.end("t=…, laplacian=…, rtol=…")?;
            }
            "communicability" => {
                let mut o = options("communicability:t=0.5")?;
                let t = o.number("t", None, FROM_0)?;
                spec = Self::Communicability { t, rtol: o.tolerance()? };
                o.end("t=…, rtol=…")?;
            }
            "walk" => {
                let mut o = options("walk:nodes=4,lambda=1,normalise=cosine,walks=50,seed=0")?;
                let (nodes, lambda) =
                    (o.count("nodes", Some(4), 1)?, o.number("lambda", Some(1.0), ABOVE_0)?);
                let normalise = o.named("normalise")?;
                let walks = if o.list.iter().any(|(key, _)| *key == "walks") {
                    Some(o.count("walks", None, 1)?)
                } else {
                    None
                };
                if let (None, Some(seed)) = (walks, o.list.iter().find(|(key, _)| *key == "seed")) {
                    return Err(o.error("seed", "walks=… beside it: exact walks are not drawn", seed.1));
                }
                let seed = o.whole("seed", Some(0), 0)?;
                spec = Self::Walk { nodes, lambda, normalise, sampled: walks.map(|walks| (walks, seed)) };
                o.end("nodes=…, lambda=…, normalise=…, walks=…, seed=…")?;
            }
            "pagerank" => {
                let mut o = options("pagerank:restart=0.15")?;
                let restart = o.number("restart", Some(0.15), (1e-3, 1.0))?;
                spec = Self::PageRank { restart, rtol: o.tolerance()? };
                o.end("restart=…, rtol=…")?;
            }
            "steps" => {
                let mut o = options("steps:p=3")?;
                spec = Self::Steps { p: o.count("p", None, 0)? };
                o.end("p=…")?;
            }
            "tree" => {
                let mut o = options("tree:rate=0.2 or tree:profile=inverse,size=8")?;
                let by_profile = o.list.iter().any(|(key, _)| matches!(*key, "profile" | "size"));
                spec = if by_profile {
                    let (profile, size) = o.profile()?;
                    Self::TreeProfile { profile, size }
                } else {
                    Self::Tree { rate: o.number("rate", Some(0.2), FROM_0)? }
                };
                o.end("rate=…, or profile=… and size=…")?;
            }
            "spd" => {
                let mut o = options("spd:profile=exp,size=8,hops=16")?;
                let (profile, size) = o.profile()?;
                let some = o.list.iter().any(|(key, _)| *key == "hops");
                let hops = if some { Some(o.count("hops", None, 0)?) } else { None };
                spec = Self::ShortestPath { profile, size, hops };
                o.end("profile=…, size=…, hops=…")?;
            }
            other => {
                let remedy = match closest(other.trim(), Self::KINDS) {
                    Some(kind) => format!("did you mean {kind}?"),
                    None => "for example: diffusion:t=100".into(),
                };
                return Err(Error::value("mask on a graph", Self::KNOWN, other, remedy));
            }
        }
        Ok(spec)
    }
}

/// A file with what stands behind its last colon, unless that is a part of its name.
fn file_of(text: &str) -> Result<GraphSpec> {
    let (path, words) = match text.rsplit_once(':') {
        Some((path, words)) if words.split(',').any(|word| word == "directed" || word.contains('=')) => {
            (path, words)
        }
        _ => (text, ""),
    };
    let mut options = Declared::default();
    let directed = |word: &&str| word.trim() == "directed";
    options.directed = words.split(',').any(|word| directed(&word));
    let rest: Vec<&str> = words.split(',').filter(|word| !directed(word)).collect();
    let rest = rest.join(",");
    let mut o = Options::of(path, &rest, "streets.csv:numbering=names,directed,nodes=9")?;
    if let Some(word) = o.take("numbering") {
        let names = Numbering::ALL.map(|(name, _)| name).join(", ");
        let found = Numbering::ALL.iter().find(|(name, _)| *name == word);
        options.numbering = found.ok_or_else(|| o.error("numbering", format!("one of {names}"), word))?.1;
    }
    if let Some(text) = o.take("nodes") {
        let number = text.parse::<usize>().ok();
        options.nodes = Some(number.ok_or_else(|| o.error("nodes", "a whole number", text))?);
    }
    o.end("numbering=…, directed, nodes=…")?;
    Ok(GraphSpec::File { path: path.into(), options })
}

impl FromStr for GraphSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = match text {
            "grid4" => Some(Self::Grid(Reach::Sides)),
            "grid8" => Some(Self::Grid(Reach::Corners)),
            "torus4" => Some(Self::Torus(Reach::Sides)),
            "torus8" => Some(Self::Torus(Reach::Corners)),
            _ => None,
        };
        if let Some(plain) = plain {
            return Ok(plain);
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        if kind == "image" {
            let mut o = Options::of(kind, rest, "image:sensitivity=8,reach=8")?;
            let sensitivity = o.number("sensitivity", Some(8.0), (0.0, 1e6))?;
            let reach = match o.take("reach") {
                None | Some("8") => Reach::Corners,
                Some("4") => Reach::Sides,
                Some(other) => return Err(o.error("reach", "4 or 8 neighbours", other)),
            };
            let cut = o.number("cut", Some(0.0), (0.0, 1.0))?;
            o.end("sensitivity=…, reach=4 or 8, cut=…")?;
            return Ok(Self::Image { sensitivity, reach, cut });
        }
        // A slip in a name has no dot; files of networks are told apart by their suffix.
        if text.contains(['.', '/', '\\']) {
            return file_of(text);
        }
        let known = "image[:sensitivity=…,reach=4|8,cut=…], grid4, grid8, torus4, torus8, or a file";
        Err(Error::value("graph", known, text, "files are told by their suffix, such as streets.graphml"))
    }
}
