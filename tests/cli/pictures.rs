//! `wgattn map` on pictures: results, reports, and pictures that are none.

use super::*;

#[test]
fn map_writes_overlay_and_array_and_reports() {
    let folder = Folder::new("map");
    let picture = folder.picture("disc.png", 96, 64);
    let run =
        folder.map(&[&picture, "--at", "32,32", "--at", "90,5", "--out", "o.png", "--raw", "m.npy"]).done();
    assert_eq!(folder.names(), ["disc.png", "m.npy", "o.png"]);
    let overlay = image::open(folder.at("o.png")).expect("an overlay");
    assert!(overlay.width() >= 96 && overlay.height() >= 64);
    let raw = arrays::read(folder.at("m.npy")).expect("an array");
    let raw = &raw[arrays::NPY_NAME];
    assert_eq!(raw.shape, [2, 16, 24], "two queries, a token every four pixels");
    let ArrayData::F32(values) = &raw.data else { panic!("the map is {}", raw.data.dtype()) };
    for query in values.chunks(16 * 24) {
        let largest = query.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        assert_eq!(largest, 1.0, "a map is divided by its largest magnitude");
    }
    // The disc's own tokens weigh more than the background's for a click on the disc.
    assert!(values[8 * 24 + 8] > 0.5 && values[8 * 24 + 22] < 0.3, "{} {}", values[200], values[214]);
    for part in ["384 (24 × 16)", "49 landmarks", "residual", "error", "memory", "o.png", "m.npy"] {
        assert!(run.stdout.contains(part), "no {part:?} in {}", run.stdout);
    }
}

#[test]
fn json_on_stdout_is_only_json_and_notices_go_to_stderr() {
    let folder = Folder::new("json");
    let picture = folder.picture("disc.png", 96, 64);
    let run = folder.map(&[&picture, "--at", "32,32", "--json", "--max-tokens", "200"]).done();
    let json = run.json();
    assert!(json["tokens"].as_u64().expect("tokens") <= 200, "{json}");
    assert_eq!(json["path"], "nystrom");
    assert_eq!(json["landmarks"], 49);
    assert_eq!(json["lambda"].as_array().expect("per head").len(), 4);
    let mean = json["mean_kernel_value"].as_f64().expect("a number");
    assert!((0.02..0.5).contains(&mean), "λ is chosen for a mean of 0.1 over all pairs, this row has {mean}");
    assert!(json["relative_error"][0].as_f64().expect("a number") < 1.0);
    assert!(json["inverse"][0]["residual"].as_f64().expect("a number") < 1e-2);
    assert_eq!(json["out"], "disc-attention.png");
    assert!(run.stderr.contains("note: "), "a reduced picture is told: {}", run.all());
    let exact =
        folder.map(&[&picture, "--at", "32,32", "--json", "--path", "exact", "--normalise", "sum"]).done();
    assert_eq!(exact.json()["path"], "exact");
    let second = folder.picture("other.png", 96, 64);
    let many = folder.map(&[&picture, &second, "--at", "1,1", "--json", "--out", "all"]).done();
    assert_eq!(many.json().as_array().expect("a list").len(), 2);
}

#[test]
fn few_tokens_take_the_exact_path_and_say_so() {
    let folder = Folder::new("few");
    let picture = folder.picture("disc.png", 40, 36);
    let run = folder.map(&[&picture, "--at", "3,3", "--json"]).done();
    assert_eq!(run.json()["path"], "exact", "90 tokens, 49 landmarks");
    assert!(run.stderr.contains("at most twice the landmarks"), "{}", run.all());
    let run = folder.map(&[&picture, "--at", "3,3", "--json", "--path", "nystrom"]).done();
    assert_eq!(run.json()["path"], "nystrom");
}

#[test]
fn a_picture_of_one_pixel_has_a_map() {
    let folder = Folder::new("one-pixel");
    let picture = folder.picture("one.png", 1, 1);
    folder.map(&[&picture, "--at", "0,0", "--raw", "m.npy"]).done();
    assert_eq!(arrays::read(folder.at("m.npy")).expect("an array")[arrays::NPY_NAME].shape, [1, 1, 1]);
}

#[test]
fn folders_and_patterns_give_one_result_per_picture() {
    let folder = Folder::new("folders");
    fs::create_dir(folder.0.join("in")).expect("a folder");
    folder.picture("in/a.png", 60, 60);
    folder.picture("in/b.jpg", 64, 56);
    fs::write(folder.0.join("in/notes.txt"), "no picture").expect("a text");
    folder.map(&["in", "--at", "9,9", "--out", "out", "--raw", "raw"]).done();
    assert!(folder.0.join("out/a-attention.png").exists() && folder.0.join("out/b-attention.png").exists());
    assert!(folder.0.join("raw/a.npy").exists() && folder.0.join("raw/b.npy").exists());
    folder.map(&["in/*.jpg", "--at", "9,9", "--out", "single.png"]).done();
    assert!(folder.0.join("single.png").exists());
    folder.map(&["in/*.gif", "--at", "9,9"]).refused(&["in/*.gif", "no pictures"]);
    fs::create_dir(folder.0.join("empty")).expect("a folder");
    folder.map(&["empty", "--at", "9,9"]).refused(&["empty", "no pictures"]);

    // One bad picture spoils no other, and is named; the exit code tells.
    fs::write(folder.0.join("in/c.png"), b"\x89PNG\r\n\x1a\n").expect("a stub");
    fs::remove_dir_all(folder.0.join("out")).expect("the first results");
    let run = folder.map(&["in", "--at", "9,9", "--out", "out"]);
    assert_eq!(run.code, Some(1), "{}", run.all());
    assert!(run.stderr.contains("c.png") && run.stderr.contains("1 of 3 pictures failed"), "{}", run.all());
    assert!(folder.0.join("out/a-attention.png").exists() && folder.0.join("out/b-attention.png").exists());
}

/// C30. Decoded the picture takes 324 MB; what is kept beside it is small.
#[test]
fn a_picture_of_108_megapixels_is_mapped_with_notices_and_bounded_memory() {
    let folder = Folder::new("large");
    let path = folder.at("large.png");
    large::draw(Path::new(&path));
    let args = ["map", &path, "--at", "11999,8999", "--max-tokens", "1000", "--device", "cpu", "--json"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .args(args)
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut most = 0;
    while child.try_wait().expect("the program can be asked").is_none() {
        most = most.max(memory(child.id()));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let run = Run::of(&args, &child.wait_with_output().expect("the program ends")).done();
    assert!(run.json()["tokens"].as_u64().expect("tokens") <= 1000);
    for notice in ["note: ", "picture reduced from 12000x9000", "shown at 1:5.9"] {
        assert!(run.stderr.contains(notice), "{notice}: {}", run.all());
    }
    // Twice the picture would be 620 MiB. Elsewhere than on Linux nothing is known.
    assert!(most < 512 << 20, "{} MiB", most >> 20);
    let overlay = image::open(folder.at("large-attention.png")).expect("an overlay");
    assert!(overlay.width().max(overlay.height()) < 8192);
}

/// Most memory in bytes that a process has had; 0 where the system does not say.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn one_file_cannot_take_the_results_of_several_pictures() {
    let folder = Folder::new("several");
    let pictures = ["a.png", "b.png"].map(|name| folder.picture(name, 48, 48));
    fs::write(folder.at("taken"), "a file").expect("a file in the way");
    let names = folder.names();
    for (flag, name) in [
        ("--out", "taken"),
        ("--out", "new.gif"),
        ("--out", "new.mp4"),
        ("--out", "new.png"),
        ("--raw", "new.npy"),
    ] {
        folder.map(&[&pictures[0], &pictures[1], "--at", "5,5", flag, name]).refused(&[
            flag,
            name,
            "names one file",
            "2 inputs",
            "name a folder",
        ]);
        assert_eq!(folder.names(), names, "{name}");
    }
    folder.map(&[&pictures[0], &pictures[1], "--at", "5,5", "--out", "taken/below"]).refused(&[
        "taken/below",
        "not a directory",
        "name a folder",
    ]);
    folder.map(&[&pictures[0], &pictures[1], "--at", "5,5", "--out", "named.like.this"]).done();
    assert!(folder.0.join("named.like.this/b-attention.png").exists());
}

#[test]
fn texts_count_and_round_as_people_do() {
    let folder = Folder::new("words");
    let picture = folder.picture("a.png", 48, 48);
    let run = folder.map(&[&picture, "--at", "5,5", "--lambda", "1e-7", "--path", "nystrom"]).done();
    assert!(run.stdout.contains("λ          1e-7 1e-7 1e-7 1e-7 per head"), "{}", run.all());
    let run = folder.map(&[&picture, "--at", "5,5", "--lambda", "1e30", "--path", "nystrom"]).done();
    assert!(run.stdout.contains("λ          1e30 1e30"), "{}", run.all());
    let one = folder.picture("one.png", 1, 1);
    let run = folder.map(&[&one, "--at", "0,0"]).done();
    assert!(run.stderr.contains("1 token is at most twice the landmarks"), "{}", run.all());
    let shot = folder.shots(&[10]);
    let run = folder.map(&[shot, "--at", "20,30", "--max-tokens", "200"]).done();
    assert!(run.stdout.contains("(1 frame of 96 × 64)"), "{}", run.all());
}

/// CRC-32 of PNG chunks.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
    })
}

/// The beginning of a PNG of a given size, without any pixel.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut chunk = b"IHDR".to_vec();
    chunk.extend(width.to_be_bytes());
    chunk.extend(height.to_be_bytes());
    chunk.extend([8, 2, 0, 0, 0]);
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
    bytes.extend(&chunk);
    bytes.extend(crc(&chunk).to_be_bytes());
    bytes
}

#[test]
fn bad_pictures_are_refused_in_one_line_and_keep_the_old_result() {
    let folder = Folder::new("bad-pictures");
    let good = folder.picture("good.png", 64, 48);
    folder.map(&[&good, "--at", "5,5", "--out", "result.png", "--raw", "result.npy"]).done();
    let kept = [fs::read(folder.at("result.png")), fs::read(folder.at("result.npy"))].map(Result::unwrap);

    let bytes = fs::read(&good).expect("the good picture");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.at(name), bytes).expect("a bad picture");
    write("truncated.png", &bytes[..bytes.len() / 2]);
    write("empty.png", b"");
    write("text.png", b"this is no picture at all, only words in a file of the wrong suffix");
    write("zero.png", &png_header(0, 10));
    write("bomb.png", &png_header(4_000_000, 4_000_000));
    write("large-claim.png", &png_header(60_000, 60_000));
    let mut names = folder.names();
    for (name, parts) in [
        ("missing.png", vec!["missing.png", "cannot read"]),
        ("truncated.png", vec!["truncated.png", "truncated"]),
        ("empty.png", vec!["empty.png"]),
        ("text.png", vec!["text.png"]),
        ("zero.png", vec!["zero.png"]),
        ("bomb.png", vec!["bomb.png"]),
        ("large-claim.png", vec!["large-claim.png"]),
    ] {
        folder.map(&[name, "--at", "5,5", "--out", "result.png", "--raw", "result.npy"]).refused(&parts);
    }
    // A suffix is only a name: what is inside decides.
    fs::copy(&good, folder.at("really-a-png.jpg")).expect("a copy");
    names.push("really-a-png.jpg".into());
    names.sort();
    folder.map(&["really-a-png.jpg", "--at", "5,5", "--out", "result.png", "--raw", "result.npy"]).done();
    assert_eq!(folder.names(), names, "nothing half-written is left");
    let now = [fs::read(folder.at("result.png")), fs::read(folder.at("result.npy"))].map(Result::unwrap);
    assert!(now == kept, "the same picture gives the same bytes, and failures touched nothing");
}

#[test]
fn an_input_is_never_overwritten_by_its_result() {
    let folder = Folder::new("own-input");
    let picture = folder.picture("self.png", 64, 48);
    let before = std::fs::read(&picture).expect("the picture reads");
    for out in [picture.clone(), folder.at("./self.png")] {
        folder.map(&[&picture, "--at", "1,1", "--out", &out]).refused(&["is the input itself"]);
    }
    assert_eq!(std::fs::read(&picture).expect("the picture reads"), before);
}

#[test]
fn pictures_whose_results_would_meet_are_refused() {
    let folder = Folder::new("meeting");
    std::fs::create_dir_all(folder.at("a")).expect("a folder");
    std::fs::create_dir_all(folder.at("b")).expect("a folder");
    let (one, two) = (folder.picture("a/m.png", 40, 40), folder.picture("b/m.png", 40, 40));
    folder.map(&[&one, &two, "--at", "1,1", "--out", "all"]).refused(&["a/m.png", "b/m.png", "both"]);
}

#[test]
fn segments_are_counted_and_decide_the_path() {
    let folder = Folder::new("segments");
    let picture = folder.picture("disc.png", 96, 64);
    let run = folder.map(&[&picture, "--at", "3,3", "--json", "--landmarks", "segments:40"]).done();
    assert_eq!((run.json()["landmarks"].as_u64(), run.json()["path"].as_str()), (Some(40), Some("nystrom")));
    let run = folder.map(&[&picture, "--at", "3,3", "--json", "--landmarks", "segments:300"]).done();
    assert_eq!(run.json()["path"], "exact", "384 tokens, 300 landmarks");
}
