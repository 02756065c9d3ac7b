//! The commands that draw what is in sight: for scripts, papers and bug reports. `wgattn map` for maps; `graphs` writes those of masks on
//! graphs.

mod graphs;

pub use graphs::{diffusion_command, tree_command};
pub(super) use graphs::{network_commands, network_tree_command};

use super::document::Document;
use super::position::Kernel;
use super::settings::{Compute, Device, Fusion, LandmarkKind, Look, Road, RowForm, Similarity};
use crate::cli::map_defaults;
use crate::mask::MaskSpec;
use crate::numbers::shortest;
use crate::vision::scene::SceneOptions;
use crate::words::{counted, plural};

/// What is copied, and what there is to tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Command lines.
    pub lines: Vec<String>,
    /// Sentences for the user.
    pub told: String,
}

/// The picture in sight as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// File, or word of the built-in one.
    pub image: String,
    /// Its number where it is one of many in the file.
    pub frame: Option<u64>,
}

/// The command that draws the document's map of the picture in sight.
///
/// Errors: as [`map_command`].
pub(super) fn map(document: &Document, input: &Input) -> Result<Copied, String> {
    let mut text = map_command(document, &input.image)?;
    if let Some(frame) = input.frame {
        text.push_str(&format!(" --frames {frame}..{}", frame + 1));
    }
    let look = &document.settings.look;
    let mut told = told("map", &drawn_otherwise(look));
    if let Fusion::Head(head) = look.fusion {
        told.push_str(&format!(" Head {} is --head {head} there, where heads count from 0.", head + 1));
    }
    Ok(Copied { lines: vec![text], told })
}

/// The `wgattn map` command that gives the row of the view of position codes with the code; `max_tokens` is of the picture in sight,
/// which may be reduced for this view.
///
/// Errors: what the command cannot say, in one line for the user.
pub(super) fn position(document: &Document, input: &Input, max_tokens: usize) -> Result<Copied, String> {
    let mut words = vec!["wgattn".to_string(), "map".to_string()];
    words.extend(position_arguments(document, &input.image, max_tokens)?);
    if let Some(frame) = input.frame {
        words.extend(["--frames".into(), format!("{frame}..{}", frame + 1)]);
    }
    let mut told = told("map", &drawn_otherwise(&document.settings.look));
    told.push_str(&format!(
        " It is the map with the code; head {} is --head {} there, where heads count from 0.",
        document.settings.position.head.saturating_add(1),
        document.settings.position.head
    ));
    Ok(Copied { lines: vec![line(&words)], told })
}

/// The arguments of [`position`] behind `wgattn map`, not quoted.
fn position_arguments(document: &Document, image: &str, max_tokens: usize) -> Result<Vec<String>, String> {
    let (compute, settings) = (&document.settings.compute, &document.settings.position);
    let code = settings.spec()?;
    if settings.head as usize >= compute.heads {
        let there = counted(compute.heads, "head", "heads");
        return Err(format!(
            "head {} is not there: there {} {there}",
            settings.head + 1,
            plural(compute.heads, "is", "are")
        ));
    }
    let own = map_defaults().map_err(|why| format!("the command's defaults are not known: {why}"))?;
    let mut words = vec![file_word(image)];
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    option("at", format!("{},{}", document.query[0], document.query[1]));
    option("position", code.to_string());
    match settings.kernel {
        // What the command takes under a code.
        Kernel::Softmax => {}
        Kernel::Elu => option("kernel", "elu".into()),
        Kernel::Relu => option("kernel", "relu".into()),
    }
    tokens(&mut option, compute, max_tokens, &own);
    option("head", settings.head.to_string());
    device(&mut option, document);
    Ok(words)
}

/// A name that begins like an option is still a file.
fn file_word(image: &str) -> String {
    if image.starts_with('-') { format!("./{image}") } else { image.to_string() }
}

/// How the picture is cut into tokens, and features of how many heads they have.
fn tokens(option: &mut impl FnMut(&str, String), compute: &Compute, max_tokens: usize, own: &SceneOptions) {
    if compute.patch != own.patch {
        option("patch", compute.patch.to_string());
    }
    if compute.stride != own.stride {
        option("stride", compute.stride.to_string());
    }
    if max_tokens != own.max_tokens {
        option("max-tokens", max_tokens.to_string());
    }
    if compute.heads != own.heads {
        option("heads", compute.heads.to_string());
    }
}

/// The device, where one was chosen.
fn device(option: &mut impl FnMut(&str, String), document: &Document) {
    if let Device::Named(name) = &document.settings.device {
        option("device", name.clone());
    }
}

fn told(what: &str, drawn_otherwise: &[&str]) -> String {
    match drawn_otherwise {
        [] => format!("Copied: the command draws this {what}."),
        other => format!("Copied: same numbers; the command line draws without {}.", other.join(", ")),
    }
}

/// Words as a line for the shell.
fn line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The command line that computes the document's map of the picture at `image`, with only those options that differ from
/// the command's own defaults, quoted for the shell.
///
/// Errors: what the command cannot say, in one line for the user.
pub fn map_command(document: &Document, image: &str) -> Result<String, String> {
    let mut words = vec!["wgattn".to_string(), "map".to_string()];
    words.extend(map_arguments(document, image)?);
    Ok(line(&words))
}

/// The arguments of [`map_command`] behind `wgattn map`, not quoted.
///
/// Errors: as there.
pub fn map_arguments(document: &Document, image: &str) -> Result<Vec<String>, String> {
    if !document.mask.is_empty() {
        return Err(
            "the command line knows no painted masks: clear the mask, or save the session instead".into()
        );
    }
    let (compute, look) = (&document.settings.compute, &document.settings.look);
    let head = match look.fusion {
        Fusion::Mean => None,
        Fusion::Head(head) if head < compute.heads => Some(head),
        Fusion::Head(head) => {
            return Err(format!(
                "head {} is not there: there {} {}",
                head + 1,
                plural(compute.heads, "is", "are"),
                counted(compute.heads, "head", "heads")
            ));
        }
        Fusion::Max | Fusion::Min => {
            return Err(
                "the command line fuses heads by their mean only: choose the mean, or one head".into()
            );
        }
    };
    let own = map_defaults().map_err(|why| format!("the command's defaults are not known: {why}"))?;
    let mut words = vec![file_word(image)];
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    option("at", format!("{},{}", document.query[0], document.query[1]));
    match compute.similarity {
        // Under a mask the command would take features.
        Similarity::Laplacian if compute.mask != MaskSpec::None => option("kernel", "laplacian".into()),
        Similarity::Laplacian => {}
        Similarity::Gaussian => option("kernel", "gaussian".into()),
        Similarity::Softmax => option("kernel", "softmax".into()),
        _ => {
            if let Some(map) = compute.feature_map() {
                option("kernel", map.to_string());
            }
        }
    }
    if compute.mask != MaskSpec::None {
        option("mask", compute.mask.to_string());
    }
    let has_bandwidth = compute.similarity.has_bandwidth();
    if has_bandwidth && (compute.road == Road::Exact || compute.must_be_exact()) {
        option("path", "exact".into());
    }
    if has_bandwidth && compute.landmarks() != own.attention.landmarks {
        let side = compute.landmark_side;
        option(
            "landmarks",
            match compute.landmarks {
                LandmarkKind::Strided => format!("strided:{side}"),
                LandmarkKind::Adaptive => format!("adaptive:{side}"),
                LandmarkKind::Segments => format!("segments:{}", side * side),
            },
        );
    }
    match compute.form {
        RowForm::None => {}
        RowForm::Sum => option("normalise", "sum".into()),
        RowForm::Row => option("normalise", "row".into()),
        RowForm::Col => option("normalise", "col".into()),
        RowForm::Cheap => option("normalise", "cheap".into()),
        RowForm::Softpp => option("normalise", "softpp".into()),
    }
    if let (Some(lambda), true) = (compute.lambda, has_bandwidth) {
        option("lambda", shortest(&lambda));
    }
    if compute.epsilon != own.attention.epsilon {
        option("epsilon", shortest(&compute.epsilon));
    }
    tokens(&mut option, compute, compute.max_tokens, &own);
    if let Some(head) = head {
        option("head", head.to_string());
    }
    device(&mut option, document);
    Ok(words)
}

/// What of the look the command draws in its own way instead: for the line that is shown after copying.
pub fn drawn_otherwise(look: &Look) -> Vec<&'static str> {
    let own = Look::default();
    let differs = [
        (look.colours != own.colours, "colours"),
        (look.range != own.range, "range"),
        (look.log, "logarithm"),
        (look.hide_sinks, "hidden sinks"),
        (look.show_landmarks, "landmarks"),
    ];
    differs.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect()
}

/// A word as the shell takes it: as it is where nothing in it means something, in quotes otherwise.
fn quoted(word: &str) -> String {
    let plain = |c: char| {
        c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | ',' | '=' | '+' | '@' | '%')
    };
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    if cfg!(windows) {
        // A file's name has no double quotes there.
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::cli::map_options;
    use crate::explorer::position::{Axes, Kind};
    use crate::explorer::settings::{Compute, Settings};
    use crate::position::Mode;
    use crate::vision::image::Photo;
    use crate::vision::scene::Scene;
    use glam::UVec2;

    fn with(change: impl FnOnce(&mut Compute)) -> Document {
        let mut document = Document { query: [120, 80], ..Document::default() };
        change(&mut document.settings.compute);
        document
    }

    /// The options that the command line makes of the command, and those that the explorer computes with.
    fn both(document: &Document) -> (String, String) {
        let arguments = map_arguments(document, "cat.png").expect("it can be said");
        let said = map_options(&arguments).unwrap_or_else(|e| panic!("{arguments:?}: {e}"));
        let mut meant = document.settings.compute.scene().expect("settings that can be computed");
        let compute = &document.settings.compute;
        if compute.must_be_exact() && compute.similarity.has_bandwidth() {
            meant.path = crate::vision::scene::MapPath::Exact;
        }
        if !compute.similarity.has_bandwidth() {
            // Both mean rows without landmarks and λ there.
            meant.path = said.path;
            meant.lambda = None;
            meant.attention.landmarks = said.attention.landmarks.clone();
        }
        // How far the exact twin goes is a question of patience, not of the map.
        meant.whitened_twin_tokens = said.whitened_twin_tokens;
        (format!("{said:?}"), format!("{meant:?}"))
    }

    #[test]
    fn the_command_line_understands_what_the_explorer_means() {
        type Change = fn(&mut Compute);
        let changes: [Change; 20] = [
            |_| {},
            |c| c.similarity = Similarity::Gaussian,
            |c| c.similarity = Similarity::Softmax,
            |c| {
                c.similarity = Similarity::Softmax;
                c.lambda = Some(2.0);
                c.road = Road::Exact;
            },
            |c| {
                c.similarity = Similarity::Softmax;
                c.landmark_side = 5;
            },
            |c| c.similarity = Similarity::Elu,
            |c| {
                c.similarity = Similarity::Relu;
                c.lambda = Some(2.0);
                c.road = Road::Exact;
                c.mask = "toeplitz:triangle,size=2.5,distance=l1,torus,causal".parse().expect("a mask");
            },
            |c| {
                c.similarity = Similarity::Exponential;
                c.mask = "stencil:3x3,0/1/0/0.25/1/0.3/0/7/0".parse().expect("a mask");
            },
            |c| {
                c.similarity = Similarity::FavorPlus;
                c.random_features = 48;
                c.mask = MaskSpec::Causal;
            },
            |c| c.mask = "decay:0.9,both".parse().expect("a mask"),
            |c| c.road = Road::Exact,
            |c| c.form = RowForm::Sum,
            |c| c.form = RowForm::Row,
            |c| c.form = RowForm::Col,
            |c| c.form = RowForm::Cheap,
            |c| c.form = RowForm::Softpp,
            |c| c.lambda = Some(0.1),
            |c| {
                c.landmarks = LandmarkKind::Segments;
                c.landmark_side = 5;
                c.epsilon = 3.3e-5;
            },
            |c| {
                c.landmarks = LandmarkKind::Adaptive;
                c.patch = 12;
                c.stride = 4;
            },
            |c| {
                c.max_tokens = 1_000_000;
                c.heads = 3;
            },
        ];
        for change in changes {
            let (said, meant) = both(&with(change));
            assert_eq!(said, meant);
        }
    }

    #[test]
    fn only_what_differs_from_the_commands_own_defaults_is_said() {
        // The explorer begins with a coarser grid than the command.
        let document = Document { query: [3, 4], ..Document::default() };
        assert_eq!(
            map_command(&document, "cat.png").expect("it can be said"),
            "wgattn map cat.png --at 3,4 --stride 8"
        );
        let document = Document { query: [3, 4], ..with(|c| c.stride = 4) };
        assert_eq!(map_command(&document, "cat.png").expect("it can be said"), "wgattn map cat.png --at 3,4");
    }

    #[test]
    fn kernels_of_features_and_masks_are_said() {
        let command = |change: fn(&mut Compute)| {
            let document = with(|c| {
                c.stride = 4;
                change(c);
            });
            map_command(&document, "a.png").expect("it can be said")
        };
        let text = command(|c| {
            c.similarity = Similarity::Elu;
            // Of another kernel: means nothing here.
            c.lambda = Some(2.0);
            c.road = Road::Exact;
            c.mask = "toeplitz:window,size=3,distance=linf,torus".parse().expect("a mask");
        });
        let wanted =
            "wgattn map a.png --at 120,80 --kernel elu --mask toeplitz:window,size=3,distance=linf,torus";
        assert_eq!(text, wanted);
        let text = command(|c| {
            (c.similarity, c.random_features) = (Similarity::FavorPlus, 32);
            c.mask = "stencil:1x3,0/1/0.5".parse().expect("a mask");
        });
        let wanted =
            "wgattn map a.png --at 120,80 --kernel favor+:features=32,seed=0 --mask stencil:1x3,0/1/0.5";
        assert_eq!(text, wanted);
        let wanted = "wgattn map a.png --at 120,80 --kernel laplacian --mask causal";
        assert_eq!(command(|c| c.mask = MaskSpec::Causal), wanted);
    }

    fn photo() -> Photo {
        let colour = |at: u32| {
            let (x, y) = (at % 96, at / 96);
            [(x * 2 + y) as u8, (40 + y * 3) as u8, ((x * y) % 255) as u8]
        };
        Photo::from_rgb8("patterns", 96, 64, (0..96 * 64).flat_map(colour).collect()).expect("a picture")
    }

    #[test]
    fn a_position_code_is_said_and_gives_the_row_in_sight() {
        type Change = fn(&mut Document);
        let changes: [Change; 5] = [
            |_| {},
            |d| d.settings.position.kernel = Kernel::Elu,
            |d| {
                let position = &mut d.settings.position;
                (position.kind, position.taps, position.head) = (Kind::Conv, 3, 2);
                (position.noise_seed, position.template_seed) = (7, 9);
            },
            |d| {
                let position = &mut d.settings.position;
                (position.gate, position.noise) = (0.3, Mode::Rademacher);
                (position.sinusoids, position.bias, position.realizations) = (3, -1.5, 32);
                (d.settings.compute.patch, d.settings.compute.stride) = (12, 6);
            },
            |d| {
                let position = &mut d.settings.position;
                (position.kernel, position.kind, position.gate) = (Kernel::Relu, Kind::Conv, 0.5);
                (position.head, d.settings.compute.heads) = (1, 3);
            },
        ];
        for change in changes {
            let mut document = Document { query: [50, 30], ..Document::default() };
            change(&mut document);
            let max_tokens = document.settings.compute.max_tokens;
            let arguments = position_arguments(&document, "cat.png", max_tokens).expect("it can be said");
            let options = map_options(&arguments).unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
            let scene = Scene::new(&photo(), &options, 1).expect("a scene");
            let mut program = scene.compile(&CpuBackend).expect("a program");
            let rows = scene.rows(program.as_mut(), &[UVec2::from(document.query)]).expect("rows");
            let got = &rows.rows[0][document.settings.position.head as usize];
            let wanted = crate::explorer::views::position_row(&document, photo());
            assert_eq!(got.len(), wanted.len(), "{arguments:?}");
            let most = wanted.iter().copied().fold(0.0, f64::max);
            let worst = got.iter().zip(&wanted).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            // Codes, features and sums in f32 there, in f64 here.
            assert!(worst <= 2e-4 * most, "{arguments:?}: {worst:e} of {most}");
        }
    }

    #[test]
    fn a_position_code_of_the_command_line_has_what_that_can_say() {
        let mut document = Document { query: [3, 4], ..Document::default() };
        let input = Input { image: "cat.png".into(), frame: None };
        let copied = position(&document, &input, 4096).expect("it can be said");
        let wanted = "wgattn map cat.png --at 3,4 --position spe-sine:sinusoids=5,bias=-2.5,realizations=64,seed=1,init=1,shared-heads \
                      --stride 8 --max-tokens 4096 --head 0";
        assert_eq!(copied.lines, [wanted]);
        assert!(copied.told.contains("with the code"), "{copied:?}");
        document.settings.position.gain = 2.0;
        assert!(position(&document, &input, 4096).expect_err("a gain").contains("gain to 1"));
        document.settings.position.gain = 1.0;
        document.settings.position.axes = Axes::Line;
        assert!(position(&document, &input, 4096).expect_err("a line").contains("choose Picture"));
        document.settings.position.axes = Axes::Picture;
        document.settings.position.head = 4;
        assert!(position(&document, &input, 4096).expect_err("no head").contains("head 5"));
    }

    #[test]
    fn a_head_and_a_device_are_said() {
        let mut settings = Settings { device: Device::Named("Swift Shader".into()), ..Settings::default() };
        settings.look.fusion = Fusion::Head(2);
        let document = Document { settings, ..Document::default() };
        let command = map_command(&document, "a.png").expect("it can be said");
        assert!(command.contains("--head 2"), "{command}");
        if cfg!(unix) {
            assert!(command.ends_with("--device 'Swift Shader'"), "{command}");
        }
    }
}
