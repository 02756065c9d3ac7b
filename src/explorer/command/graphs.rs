//! Command lines of masks on graphs: `wgattn mask` for those over a picture, `wgattn graph` for those of a network from a file.

use super::{Copied, Input, told};
use crate::explorer::document::Document;
use crate::explorer::networks::{NetworkSettings, Plan, Source};
use crate::explorer::settings::{Colours, Device, Look};
use crate::mask::Profile;
use crate::mask::network::{LEAST_RTOL, NetworkMask, NetworkMaskSpec};
use crate::topology::kernel::Normalisation;
use crate::topology::read::Numbering;
use crate::vision::grid::{DEFAULT_MAX_TOKENS, DEFAULT_STRIDE};

/// The `wgattn mask` command that gives the row of the view of diffusions.
///
/// Errors: what the command cannot say, in one line for the user: cuts and links have no words there.
pub fn diffusion_command(document: &Document, input: &Input) -> Result<Copied, String> {
    if !document.cuts.is_empty() {
        let why =
            "the command line knows no cuts and links made by hand: clear them, or save the session instead";
        return Err(why.into());
    }
    let mut copied = over_picture(document, input, &document.settings.networks.diffusion.mask())?;
    copied.told.push_str(" It is the mask alone, without the map.");
    copied.told.push_str(toleranced_otherwise(document.settings.networks.diffusion.tolerance));
    Ok(copied)
}

/// The `wgattn mask` command that gives the row of the view of trees, where it spans the picture.
///
/// Errors: what the command cannot say, in one line for the user.
pub fn tree_command(document: &Document, input: &Input) -> Result<Copied, String> {
    over_picture(document, input, &document.settings.networks.tree.mask())
}

/// A mask along the edges of a picture's tokens.
fn over_picture(document: &Document, input: &Input, mask: &NetworkMask) -> Result<Copied, String> {
    if input.frame.is_some() {
        let why = "the picture is one of many in its file, and `wgattn mask` takes pictures only: save it as a picture and open that one";
        return Err(why.into());
    }
    let compute = &document.settings.compute;
    let mut words = ["wgattn", "mask"].map(String::from).to_vec();
    words.extend([mask.spec.to_string(), input.image.clone()]);
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    option("at", format!("{},{}", document.query[0], document.query[1]));
    option("graph", mask.graph.to_string());
    if compute.stride != DEFAULT_STRIDE {
        option("stride", compute.stride.to_string());
    }
    if compute.max_tokens != DEFAULT_MAX_TOKENS {
        option("max-tokens", compute.max_tokens.to_string());
    }
    if let Device::Named(name) = &document.settings.device {
        option("device", name.clone());
    }
    Ok(Copied {
        lines: vec![super::line(&words)],
        told: told("mask", &drawn_otherwise(&document.settings.look)),
    })
}

/// What of the look the commands of masks draw in their own way.
fn drawn_otherwise(look: &Look) -> Vec<&'static str> {
    [(look.colours == Colours::Grey, "grey"), (look.log, "logarithm")]
        .into_iter()
        .filter_map(|(differs, what)| differs.then_some(what))
        .collect()
}

/// The file of a network.
fn file(settings: &NetworkSettings) -> Result<&str, String> {
    match &settings.source {
        Source::File(path) => Ok(path),
        Source::Built(_) => {
            Err("the network is a built-in one, and the command line reads networks from files".into())
        }
    }
}

/// The word that the command line takes for a node: names come before numbers there.
///
/// Errors: a node that has no word of its own.
fn node_word(plan: &Plan, node: u32) -> Result<String, String> {
    let first = |word: &str| plan.names.iter().position(|name| name == word);
    let own = |name: &&String| !name.is_empty() && first(name) == Some(node as usize);
    if let Some(name) = plan.names.get(node as usize).filter(own) {
        return Ok(name.clone());
    }
    match first(&node.to_string()) {
        None => Ok(node.to_string()),
        Some(other) => Err(format!(
            "node {node} has no name of its own, and its number is the name of node {other}: choose another node"
        )),
    }
}

/// A `wgattn graph` command for one mask of a network.
fn on_file(document: &Document, plan: &Plan, mask: NetworkMaskSpec, out: &str) -> Result<String, String> {
    let settings = &document.settings.networks.network;
    let mut words = ["wgattn", "graph", file(settings)?].map(String::from).to_vec();
    let query = settings.query.min((plan.network.nodes() as u32).saturating_sub(1));
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    if plan.numbering == Numbering::Names {
        option("numbering", "names".into());
    }
    option("mask", mask.to_string());
    option("node", node_word(plan, query)?);
    option("out", out.into());
    if let Device::Named(name) = &document.settings.device {
        option("device", name.clone());
    }
    Ok(super::line(&words))
}

/// The `wgattn graph` commands that draw the masks of the view of networks: heat, random walk and shortest path.
///
/// Errors: what the commands cannot say, in one line for the user.
pub(in crate::explorer) fn network_commands(document: &Document, plan: &Plan) -> Result<Copied, String> {
    let settings = &document.settings.networks.network;
    file(settings)?;
    let heat = match plan.statistics.undirected {
        true => Ok(NetworkMaskSpec::Diffusion {
            t: settings.time,
            laplacian: settings.laplacian,
            rtol: settings.tolerance.max(LEAST_RTOL),
        }),
        false => Err("of heat, which takes edges both ways here and undirected networks alone there"),
    };
    let walk = match settings.discount > 0.0 {
        true => Ok(NetworkMaskSpec::Walk {
            nodes: settings.walk,
            lambda: settings.discount,
            normalise: Normalisation::Cosine,
            sampled: None,
        }),
        false => Err("of walks with discount 0, which the command line does not take"),
    };
    // No rate at all sees everything within reach alike.
    let (profile, size) = match settings.rate > 0.0 {
        true => (Profile::Exponential, 1.0 / settings.rate),
        false => (Profile::Window, plan.network.nodes() as f64),
    };
    let path = Ok(NetworkMaskSpec::ShortestPath { profile, size, hops: None });
    let (mut lines, mut missing) = (Vec::new(), Vec::new());
    for (mask, out) in [(heat, "heat.png"), (walk, "walk.png"), (path, "path.png")] {
        match mask {
            Ok(mask) => lines.push(on_file(document, plan, mask, out)?),
            Err(why) => missing.push(why),
        }
    }
    let mut told = match drawn_otherwise(&document.settings.look).as_slice() {
        [] => "Copied: a command for each mask.".to_string(),
        other => {
            format!(
                "Copied: a command for each mask, with the same numbers; drawn without {}.",
                other.join(", ")
            )
        }
    };
    if !missing.is_empty() {
        told.push_str(&format!(" There is none {}.", missing.join(", and none ")));
    }
    if plan.statistics.undirected {
        told.push_str(toleranced_otherwise(settings.tolerance));
    }
    told.push_str(placed_otherwise(settings, plan));
    Ok(Copied { lines, told })
}

/// The `wgattn graph` command that draws the row of the view of trees, where it spans a network.
///
/// Errors: what the command cannot say, in one line for the user.
pub(in crate::explorer) fn network_tree_command(document: &Document, plan: &Plan) -> Result<Copied, String> {
    let networks = &document.settings.networks;
    file(&networks.network)?;
    if !plan.statistics.undirected {
        return Err(
            "the tree takes edges both ways here, and undirected networks alone on the command line".into()
        );
    }
    if plan.network.weights().is_some() {
        let why = "the tree keeps the strongest edges and counts steps, and the command line takes a file's weights as lengths";
        return Err(why.into());
    }
    let line = on_file(document, plan, NetworkMaskSpec::Tree { rate: networks.tree.rate }, "tree.png")?;
    let mut told = told("mask", &drawn_otherwise(&document.settings.look));
    told.push_str(placed_otherwise(&networks.network, plan));
    Ok(Copied { lines: vec![line], told })
}

/// What is to be told of a tolerance.
fn toleranced_otherwise(tolerance: f64) -> &'static str {
    if tolerance < LEAST_RTOL { " Its tolerance is 1e-7, the least that it takes." } else { "" }
}

/// What is to be told of the places of nodes.
fn placed_otherwise(settings: &NetworkSettings, plan: &Plan) -> &'static str {
    match (settings.moved.is_empty(), plan.given && settings.arrange) {
        (true, false) => "",
        (true, true) => " Nodes are drawn where the file has them.",
        (false, _) => " Nodes that were dragged are drawn at their own places.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::explorer::networks::{Loader, Shape, TreeOf};
    use crate::mask::network::GraphSpec;
    use crate::topology::Laplacian;
    use crate::topology::tree::oracle;
    use crate::vision::scene::mask_rows;
    use std::sync::Arc;

    fn input(image: &str) -> Input {
        Input { image: image.into(), frame: None }
    }

    #[test]
    fn a_diffusion_is_said_and_what_was_painted_is_refused() {
        let mut document = Document { query: [120, 80], ..Document::default() };
        let copied = diffusion_command(&document, &input("cat.png")).expect("it can be said");
        let wanted =
            "wgattn mask diffusion:t=60 cat.png --at 120,80 --graph image:sensitivity=40,reach=8 --stride 8";
        assert_eq!(copied.lines, [wanted]);
        let settings = &mut document.settings.networks.diffusion;
        (settings.time, settings.sensitivity, settings.corners) = (0.1 + 0.2, 1e-3, false);
        (settings.laplacian, settings.tolerance) = (Laplacian::RandomWalk, 3e-7);
        document.settings.compute.stride = 4;
        document.settings.compute.max_tokens = 999;
        document.settings.device = Device::Named("cpu".into());
        let copied = diffusion_command(&document, &input("a b.png")).expect("it can be said");
        let text = &copied.lines[0];
        let wanted = "wgattn mask diffusion:t=0.30000000000000004,laplacian=random-walk,rtol=3e-7 'a b.png' --at 120,80 \
                      --graph image:sensitivity=0.001,reach=4 --max-tokens 999 --device cpu";
        assert!(cfg!(windows) || text == wanted, "{text}");
        // Word for word what is computed with.
        let mask = document.settings.networks.diffusion.mask();
        assert_eq!(mask.spec.to_string().parse::<NetworkMaskSpec>().expect("a mask"), mask.spec);
        assert_eq!(mask.graph.to_string().parse::<GraphSpec>().expect("a graph"), mask.graph);
        document.settings.networks.diffusion.tolerance = 1e-9;
        let copied = diffusion_command(&document, &input("a.png")).expect("it can be said");
        assert!(
            copied.lines[0].contains(",rtol=1e-7 ") && copied.told.contains("1e-7, the least"),
            "{copied:?}"
        );
        let frame = Input { frame: Some(3), ..input("clip.gif") };
        assert!(diffusion_command(&document, &frame).expect_err("a frame").contains("pictures only"));
        document.cuts.links = vec![[[1, 1], [9, 9]]];
        let why = diffusion_command(&document, &input("a.png")).expect_err("a link");
        assert!(why.contains("cuts and links"), "{why}");
    }

    #[test]
    fn a_tree_over_a_picture_is_said() {
        let mut document = Document { query: [3, 4], ..Document::default() };
        document.settings.look.log = true;
        let copied = tree_command(&document, &input("cat.png")).expect("it can be said");
        let wanted =
            "wgattn mask tree:rate=0.06 cat.png --at 3,4 --graph image:sensitivity=40,reach=8 --stride 8";
        assert_eq!(copied.lines, [wanted]);
        assert!(copied.told.contains("logarithm"), "{}", copied.told);
    }

    fn plan(document: &Document) -> Arc<Plan> {
        let settings = &document.settings.networks.network;
        Loader::default().plan(settings, 0, &|| true).expect("nothing stops it").expect("a plan")
    }

    /// A document about a file that is written first.
    fn about(name: &str, content: &str) -> Document {
        let folder = std::env::temp_dir().join(format!("wgattn-commands-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        std::fs::write(&path, content).expect("written");
        let mut document = Document::default();
        document.settings.networks.network.source = Source::File(path.display().to_string());
        document
    }

    /// The value of an option of a line.
    fn option<'a>(line: &'a str, name: &str) -> &'a str {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("{name}: {line}"));
        words[at + 1]
    }

    /// The row that the command line's mask gives, on the CPU.
    fn row(line: &str, plan: &Plan) -> Vec<f64> {
        let spec: NetworkMaskSpec = option(line, "--mask").parse().expect("a mask");
        let made = spec.operator(&plan.network).expect("it is made");
        let word = option(line, "--node");
        let named = plan.names.iter().position(|name| name == word).map(|at| at as u32);
        let node = named.unwrap_or_else(|| word.parse().expect("a node"));
        let rows = mask_rows(&CpuBackend, &made, &[node]).expect("a row").rows;
        rows[0].iter().map(|w| f64::from(*w)).collect()
    }

    fn same(got: &[f64], wanted: &[f64], what: &str) {
        let most = wanted.iter().copied().fold(0.0, f64::max);
        let worst = got.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(got.len() == wanted.len() && worst <= 1e-5 * most, "{what}: {worst:e} of {most}");
    }

    const FRIENDS: &str = "source,target,weight\nann,bob,2\nbob,cat,1\ncat,ann,0.5\ncat,dan,1\neve,fay,1\n";

    #[test]
    fn commands_of_networks_give_the_rows_in_sight() {
        let directed = "%%MatrixMarket matrix coordinate real general\n4 4 4\n1 2 1\n2 3 2\n3 1 1\n3 4 1\n";
        let ring: String = (0..9).map(|i| format!("{i} {}\n", (i + 1) % 9)).collect();
        for (name, content) in [("friends.csv", FRIENDS), ("one-way.mtx", directed), ("ring.txt", &ring)] {
            let mut document = about(name, content);
            let network = &mut document.settings.networks.network;
            (network.query, network.tolerance, network.rate) = (2, 1e-9, 0.3);
            let plan = plan(&document);
            let copied = network_commands(&document, &plan).expect("it can be said");
            let one_way = name == "one-way.mtx";
            assert_eq!(copied.lines.len(), if one_way { 2 } else { 3 }, "{copied:?}");
            assert_eq!(copied.told.contains("none of heat"), one_way, "{copied:?}");
            assert_eq!(copied.told.contains("1e-7, the least"), !one_way, "{copied:?}");
            let named = copied.lines.iter().all(|line| line.contains(" --numbering names"));
            assert_eq!(named, name == "friends.csv", "{copied:?}");
            let rows = crate::explorer::views::network_rows(&document.settings.networks.network);
            let shown = if one_way { &rows[1..] } else { &rows[..] };
            for (line, wanted) in copied.lines.iter().zip(shown) {
                same(&row(line, &plan), wanted, line);
            }
        }
    }

    #[test]
    fn nodes_are_called_by_their_names_where_those_are_their_own() {
        // Names that are numbers of other nodes.
        let mut document = about("numbers.csv", "a,b,1\n2,0,1\n0,a,1\n");
        let plan = plan(&document);
        assert_eq!(plan.names, ["a", "b", "2", "0"]);
        for (query, word) in [(0, "a"), (2, "2"), (3, "0")] {
            document.settings.networks.network.query = query;
            let copied = network_commands(&document, &plan).expect("it can be said");
            assert_eq!(option(&copied.lines[0], "--node"), word);
        }
        let twice = Plan {
            names: ["x", "x", "1", ""].map(String::from).to_vec(),
            ..Arc::into_inner(plan).expect("ours")
        };
        assert!(node_word(&twice, 1).expect_err("no word").contains("name of node 2"));
        assert_eq!(node_word(&twice, 3), Ok("3".into()));
    }

    #[test]
    fn a_tree_of_a_network_is_said_where_the_command_grows_the_same() {
        let ladder: String = (0..12).map(|i| format!("{i} {}\n{i} {}\n", i + 1, (i + 5) % 13)).collect();
        let mut document = about("ladder.el", &ladder);
        let networks = &mut document.settings.networks;
        (networks.tree.of, networks.network.query) = (TreeOf::Network, 4);
        let plan_of = plan(&document);
        let copied = network_tree_command(&document, &plan_of).expect("it can be said");
        let forest = crate::explorer::views::network_tree(&plan_of).expect("a tree");
        let far = oracle::distances_from(&forest, 4);
        let rate = document.settings.networks.tree.rate;
        let wanted: Vec<f64> = far.iter().map(|d| (-rate * d).exp()).collect();
        same(&row(&copied.lines[0], &plan_of), &wanted, &copied.lines[0]);
        let document = about("weighted.csv", FRIENDS);
        let why = network_tree_command(&document, &plan(&document)).expect_err("weights");
        assert!(why.contains("lengths"), "{why}");
    }

    #[test]
    fn what_has_no_file_has_no_command_and_dragged_nodes_are_told() {
        let mut document = Document::default();
        document.settings.networks.network.source = Source::Built(Shape::Ring);
        let why = network_commands(&document, &plan(&document)).expect_err("no file");
        assert!(why.contains("built-in"), "{why}");
        let mut document = about("pair.txt", "0 1\n");
        let network = &mut document.settings.networks.network;
        network.moved = vec![(1, [0.5, 0.5])];
        (network.rate, network.discount, network.query) = (0.0, 0.0, 77);
        let copied = network_commands(&document, &plan(&document)).expect("it can be said");
        assert!(copied.told.contains("dragged") && copied.told.contains("discount 0"), "{copied:?}");
        assert_eq!(copied.lines.len(), 2);
        assert!(copied.lines[1].contains("--mask spd:profile=window,size=2 --node 1 --out path.png"));
    }
}
