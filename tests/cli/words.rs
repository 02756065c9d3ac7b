//! What the program says: refusals, usage, devices, closed pipes.

use super::*;

/// What the system refuses is told with its name and what to do, and without the system's number.
#[cfg(target_os = "linux")]
#[test]
fn refusals_of_the_system_are_told_in_words() {
    let folder = Folder::new("refusals");
    let picture = folder.picture("a.png", 48, 48);
    let file = file_of_ones(&folder);
    // Nothing can be made in /proc, and nothing fits on /dev/full.
    let proc: [(&[&str], &str); 11] = [
        (&["bench", "probe_copy", "--export", "/proc/x.html", "--device", "cpu"], "no file can be made"),
        (&["conformance", "matmul/odd", "--out", "/proc/o.json", "--device", "cpu"], "no file can be made"),
        (&["conformance", "matmul/odd", "--dump", "/proc/o", "--device", "cpu"], "no folder can be made"),
        (&["conformance", "matmul/odd", "--web", "/proc/o"], "no folder can be made"),
        (&["mask", "causal", "--grid", "4x4", "--at", "1,1", "--out", "/proc/o.png"], "no file can be made"),
        (&["spe", "sine", "--out", "/proc/o.png", "--device", "cpu"], "no file can be made"),
        (&["map", &picture, "--at", "5,5", "--device", "cpu", "--out", "/proc/o.png"], "no file can be made"),
        (&["map", &picture, "--at", "5,5", "--device", "cpu", "--raw", "/proc/o.npy"], "no file can be made"),
        (
            &["map", &picture, &file, "--at", "5,5", "--device", "cpu", "--out", "/proc/o"],
            "cannot make this folder",
        ),
        (&["map", "/proc/none.png", "--at", "5,5", "--device", "cpu"], "check the path"),
        (
            &["eval", "matmul", "--inputs", "/proc/none.npz", "--out", "o.npz", "--device", "cpu"],
            "check the name",
        ),
    ];
    for (args, remedy) in proc {
        let run = folder.run(args).refused(&["/proc/", remedy]);
        assert!(!run.stderr.contains("os error"), "{}", run.all());
    }
    folder
        .run(&["bench", "probe_copy", "--export", "none/o.csv", "--device", "cpu"])
        .refused(&["none/o.csv", "no folder"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the full disk");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
    let output = command.args(["eval", "--list"]).stdout(full).output().expect("the program starts");
    let run = Run::of(&["eval", "--list"], &output);
    run.refused(&["standard output", "no space left", "make room"]);
}

/// A result never takes the place of a file that somebody made read-only, and says so before any work.
#[test]
fn what_is_read_only_is_not_replaced() {
    let folder = Folder::new("read-only");
    let picture = folder.picture("a.png", 48, 48);
    let inputs = folder.at("in.npz");
    let names = ["o.png", "o.npy", "o.npz", "o.json", "o.html", "o.csv", "o.md"];
    for name in names {
        fs::write(folder.at(name), "mine").expect("a file");
        let mut permissions = fs::metadata(folder.at(name)).expect("a file").permissions();
        permissions.set_readonly(true);
        fs::set_permissions(folder.at(name), permissions).expect("it is ours");
    }
    let before = folder.names();
    let cases: [&[&str]; 10] = [
        &["bench", "count_flags", "--quick", "--export", "o.json"],
        &["bench", "count_flags", "--quick", "--export", "o.html"],
        &["bench", "count_flags", "--quick", "--export", "o.csv"],
        &["bench", "count_flags", "--quick", "--export", "o.md"],
        &["conformance", "matmul/odd", "--out", "o.json"],
        &["map", &picture, "--at", "5,5", "--out", "o.png"],
        &["map", &picture, "--at", "5,5", "--raw", "o.npy"],
        &["mask", "causal", "--grid", "4x4", "--at", "1,1", "--out", "o.png"],
        &["spe", "sine", "--out", "o.png"],
        &["eval", "matmul", "--inputs", &inputs, "--out", "o.npz"],
    ];
    for args in cases {
        folder.run(&[args, &["--device", "cpu"]].concat()).refused(&["o.", "read-only"]);
    }
    assert_eq!(folder.names(), before, "nothing is left behind");
    for name in names {
        assert_eq!(fs::read(folder.at(name)).expect("it is there"), b"mine", "{name}");
        let mut permissions = fs::metadata(folder.at(name)).expect("a file").permissions();
        #[expect(clippy::permissions_set_readonly_false, reason = "so that the folder can be removed again")]
        permissions.set_readonly(false);
        fs::set_permissions(folder.at(name), permissions).expect("it is ours");
    }
}

/// An unset variable of a script is no device, and is not taken for one.
#[test]
fn an_empty_device_is_refused_everywhere() {
    let folder = Folder::new("empty-device");
    let picture = folder.picture("a.png", 48, 48);
    let cases: [&[&str]; 9] = [
        &["map", &picture, "--at", "5,5"],
        &["mask", "causal", "--grid", "4x4", "--at", "1,1"],
        &["spe", "sine"],
        &["graph", "none.json"],
        &["eval", "matmul", "--inputs", "none.npz", "--out", "o.npz"],
        &["bench", "count_flags", "--quick"],
        &["bench", "scaling"],
        &["conformance", "matmul/odd"],
        #[cfg(feature = "explorer")]
        &["explore"],
        #[cfg(not(feature = "explorer"))]
        &["spe", "sine"],
    ];
    for args in cases {
        for word in ["", " "] {
            let run = folder.run(&[args, &["--device", word]].concat());
            assert_eq!(run.code, Some(2), "{}", run.all());
            assert!(run.stderr.contains("expected auto, cpu, cuda:0, or the index"), "{}", run.all());
        }
    }
    for list in ["cpu,", ",cpu"] {
        for command in [&["bench", "count_flags", "--quick"][..], &["conformance", "matmul/odd"]] {
            let run = folder.run(&[command, &["--device", list]].concat());
            assert_eq!(run.code, Some(2), "{}", run.all());
        }
    }
    folder.run(&["conformance", "", "--device", "cpu"]).refused(&["no kernel matches \"\""]);
}

/// What is remembered of tuning, and what stands where it should be, is told for what it is. Without adapters there is nothing to tell.
#[cfg(feature = "wgpu")]
#[test]
fn what_is_wrong_with_remembered_choices_is_told() {
    let folder = Folder::new("remembered");
    let devices = |args: &[&str]| {
        let args = [&["devices"], args].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
        for name in ["XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"] {
            command.env(name, &folder.0);
        }
        Run::of(&args, &command.args(&args).output().expect("the program starts"))
    };
    let all = devices(&["--tuned", "--json"]).done().json();
    let Some(file) = all["devices"][0]["file"].as_str().map(PathBuf::from) else { return };
    assert!(file.starts_with(&folder.0), "{}", file.display());
    let none = devices(&["--forget-tuned"]).done();
    assert!(none.stdout.contains("nothing was remembered"), "{}", none.all());
    fs::create_dir_all(file.parent().expect("a folder")).expect("ours");
    for (text, told) in [
        ("wgattn tuned variants, format 1\nadap", "it is cut off"),
        ("wgattn tuned variants, format 1\nadapter: nobody's\n", "of another adapter: \"nobody's\""),
        ("secret words\n", "it does not begin with"),
        ("", "it is empty"),
    ] {
        fs::write(&file, text).expect("ours");
        let listed = devices(&["--tuned"]).done();
        assert!(listed.stdout.contains(told) && listed.stdout.contains("--forget-tuned"), "{}", listed.all());
        assert!(!listed.stdout.contains("secret"), "{}", listed.all());
    }
    let removed = devices(&["--forget-tuned"]).done();
    assert!(removed.stdout.contains("is removed") && !file.exists(), "{}", removed.all());
    fs::create_dir(&file).expect("ours");
    let listed = devices(&["--tuned"]).done();
    assert!(
        listed.stdout.contains("it is a folder") && listed.stdout.contains("by hand"),
        "{}",
        listed.all()
    );
    let kept = devices(&["--forget-tuned", "--json"]);
    assert_eq!(kept.code, Some(1), "{}", kept.all());
    assert!(kept.stderr.contains("is a folder") && kept.stderr.contains("by hand"), "{}", kept.all());
    assert_eq!(kept.json()["devices"][0]["removed"], false);
}

/// A negative number is the value of the option before it, and is refused as such.
#[test]
fn negative_numbers_are_refused_with_what_the_option_takes() {
    let folder = Folder::new("negative");
    let picture = folder.picture("a.png", 48, 48);
    let cases: [(&[&str], &str); 10] = [
        (&["bench", "-5"], "unexpected argument"),
        (&["bench", "matmul", "--n", "-5"], "whole number from 1 to 4294967295"),
        (&["bench", "matmul", "--n", "-1k..4k"], "whole number from 1 to 4294967295"),
        (&["bench", "matmul", "--n", "9999999M"], "whole number from 1 to 4294967295"),
        (&["bench", "matmul", "--heads", "-2"], "whole number from 1 to 4294967295"),
        (&["bench", "matmul", "--seconds", "-1"], "0 to 3600"),
        (&["bench", "matmul", "--max-dispatch-ms", "-1"], "1 to 60000"),
        (&["bench", "scaling", "--tokens", "-64"], "-64"),
        (&["spe", "sine", "--realizations", "-3"], "-3"),
        (&["map", &picture, "--at", "5,5", "--heads", "-2"], "-2"),
    ];
    for (args, told) in cases {
        let run = folder.run(args);
        assert_eq!(run.code, Some(2), "{}", run.all());
        assert!(run.stderr.contains(told) && !run.stderr.contains("-- -"), "{}", run.all());
    }
}

/// A second input; that it is no picture comes later than what is tested with it.
#[cfg(target_os = "linux")]
fn file_of_ones(folder: &Folder) -> String {
    fs::write(folder.at("ones.png"), [1]).expect("a file");
    folder.at("ones.png")
}

#[test]
fn bad_arguments_are_refused_in_one_line_and_keep_the_old_result() {
    let folder = Folder::new("bad-arguments");
    let good = folder.picture("good.png", 64, 48);
    // Another click than below, so that an overlay written before a failure would show.
    folder.map(&[&good, "--at", "50,40", "--out", "result.png"]).done();
    let kept = fs::read(folder.at("result.png")).expect("a result");
    fs::create_dir(folder.0.join("directory.png")).expect("a folder in the way");
    let names = folder.names();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--at", "64,0"], &["(64, 0)", "x < 64"]),
        (&["--at", "0,48"], &["(0, 48)", "y < 48"]),
        (&["--at", "5,5", "--at", "4000000000,1"], &["4000000000"]),
        (&["--at", "-5,5"], &["-5", "X,Y"]),
        (&["--at", "garbage"], &["garbage", "X,Y"]),
        (&["--at", "5,"], &["X,Y"]),
        (&["--at", "5;5"], &["X,Y"]),
        (&["--at", "5,5", "--lambda", "0"], &["lambda", "> 0", "got 0"]),
        (&["--at", "5,5", "--lambda", "-1"], &["lambda", "> 0", "got -1"]),
        (&["--at", "5,5", "--lambda", "NaN"], &["lambda", "NaN"]),
        (&["--at", "5,5", "--lambda", "inf"], &["lambda", "∞"]),
        (&["--at", "5,5", "--lambda", "wide"], &["lambda", "wide"]),
        (&["--at", "5,5", "--epsilon", "0"], &["epsilon", "> 0"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "strided:60"], &["landmarks", "192", "3600"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "adaptive:70000"], &["landmarks", "192"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "pooled:5"], &["divisor"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "given:1,2,999"], &["999"]),
        (&["--at", "5,5", "--landmarks", "strided:0"], &["1 or more"]),
        (&["--at", "5,5", "--landmarks", "strided:7x9"], &["7x9", "one whole number", "strided:7"]),
        (&["--at", "5,5", "--landmarks", "7x9"], &["7x9", "no kind of landmarks", "strided:7"]),
        (&["--at", "5,5", "--landmarks", "51"], &["51", "no kind of landmarks", "segments:COUNT"]),
        (&["--at", "5,5", "--landmarks", "given:"], &["given:0,17,300"]),
        (
            &["--at", "5,5", "--path", "nystrom", "--landmarks", "strided:1000000"],
            &["192", "1000000 × 1000000 = 1000000000000", "a side of 1 to 13"],
        ),
        (&["--at", "5,5", "--lambda", "-1e30"], &["lambda", "got -1e30;"]),
        (&["--at", "5,5", "--landmarks", "sprinkled:7"], &["sprinkled", "strided"]),
        (&["--at", "5,5", "--head", "4"], &["head 4", "0 to 3"]),
        (&["--at", "5,5", "--heads", "0"], &["heads"]),
        (&["--at", "5,5", "--preset", "newest"], &["newest", "paper"]),
        (&["--at", "5,5", "--kernel", "cosine"], &["cosine"]),
        (&["--at", "5,5", "--kernel", "softmax", "--path", "nystrom"], &["softmax", "exact"]),
        (&["--at", "5,5", "--path", "exact", "--normalise", "cheap"], &["cheap", "nystrom"]),
        (&["--at", "5,5", "--path", "nystrom", "--normalise", "sum"], &["sum", "exact"]),
        (&["--at", "5,5", "--patch", "0"], &["patch", "0"]),
        (&["--at", "5,5", "--patch", "65"], &["patch", "65"]),
        (&["--at", "5,5", "--stride", "0"], &["stride", "0"]),
        (&["--at", "5,5", "--max-tokens", "0"], &["token", "0"]),
        (&["--at", "5,5", "--device", "abacus"], &["device \"abacus\" cannot be taken"]),
        (&["--at", "5,5", "--device", "99"], &["device \"99\" cannot be taken"]),
        (&["--at", "5,5", "--device", "cuda"], &["cuda"]),
        (&["--at", "5,5", "--out", "nowhere/result.png"], &["nowhere"]),
        (&["--at", "5,5", "--raw", "nowhere/result.npy"], &["nowhere"]),
        (&["--at", "5,5", "--raw", "result.txt"], &["result.txt", "suffix"]),
        (&["--at", "5,5", "--out", "good.png/result.png"], &["good.png"]),
        (&[], &["--at"]),
        (&["--at", "5,5", "--colour", "red"], &["--colour"]),
    ];
    for (arguments, parts) in cases {
        let given = arguments.contains(&"--device");
        let mut all = vec!["map", good.as_str()];
        all.extend_from_slice(arguments);
        if !given {
            all.extend(["--device", "cpu"]);
        }
        if !arguments.contains(&"--out") {
            all.extend(["--out", "result.png"]);
        }
        folder.run(&all).refused(parts);
        assert_eq!(folder.names(), names, "left behind by {arguments:?}");
        assert!(fs::read(folder.at("result.png")).expect("a result") == kept, "{arguments:?}");
    }
    // A folder as --out takes the picture's own name.
    folder.map(&[&good, "--at", "5,5", "--out", "directory.png"]).done();
    assert!(folder.0.join("directory.png/good-attention.png").exists());
    fs::create_dir(folder.0.join("directory.png/taken.npy")).expect("a folder in the way");
    fs::create_dir(folder.0.join("directory.png/taken.npy/good.npy")).expect("a folder in the way");
    folder
        .map(&[&good, "--at", "5,5", "--out", "result.png", "--raw", "directory.png/taken.npy"])
        .refused(&["good.npy"]);
    assert!(fs::read(folder.at("result.png")).expect("a result") == kept);
}

#[test]
fn devices_are_listed_as_json_with_the_cpu() {
    let folder = Folder::new("devices");
    let json = folder.run(&["devices", "--json"]).done().json();
    let devices = json["devices"].as_array().expect("a list");
    let cpu = devices.last().expect("the CPU at least");
    assert_eq!((&cpu["index"], &cpu["backend"]), (&"cpu".into(), &"cpu".into()));
    for adapter in &devices[..devices.len() - 1] {
        for field in ["name", "backend", "type", "driver", "pci", "limits", "timestamps", "subgroup_sizes"] {
            assert!(adapter.get(field).is_some(), "{field} is missing in {adapter}");
        }
    }
    // Cards, or why there are none.
    let (cards, lack) = (json["cuda"]["cards"].as_array().expect("a list"), &json["cuda"]["unavailable"]);
    assert!(cards.is_empty() == lack.is_string(), "{json}");
    let text = folder.run(&["devices"]).done().stdout;
    assert!(text.contains("cpu  ") && text.contains("CUDA"), "{text}");
}

#[test]
fn a_closed_pipe_is_no_crash() {
    let folder = Folder::new("pipe");
    for args in [&["eval", "--list"][..], &["devices"], &["shaders"], &["--help"], &["map", "--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_wgattn"))
            .args(args)
            .current_dir(&folder.0)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(|child| child.wait_with_output())
            .expect("the program starts");
        let run = Run::of(args, &output);
        assert!(!run.stderr.contains("panicked"), "{}", run.all());
        assert!(run.code.is_some(), "ended by a signal: {}", run.all());
    }
}

#[test]
fn help_and_wrong_usage_are_told_apart() {
    let folder = Folder::new("usage");
    assert!(folder.run(&["--version"]).done().stdout.starts_with("wgattn "));
    assert!(folder.run(&["map", "--help"]).done().stdout.contains("--landmarks"));
    assert_eq!(folder.run(&["dance"]).refused(&["dance"]).code, Some(2));
    assert_eq!(folder.run(&["map"]).refused(&[]).code, Some(2));
    assert_eq!(
        folder.run(&["map", "missing.png", "--at", "1,1", "--device", "cpu"]).refused(&[]).code,
        Some(1)
    );
}

#[test]
fn absurd_heads_and_contradictions_are_refused() {
    let folder = Folder::new("absurd");
    let picture = folder.picture("disc.png", 64, 48);
    for heads in ["0", "65", "4294967295"] {
        folder.map(&[&picture, "--at", "1,1", "--heads", heads]).refused(&["--heads", "1 to 64"]);
    }
    folder
        .map(&[&picture, "--at", "1,1", "--kernel", "softmax", "--lambda", "3"])
        .refused(&["--lambda", "softmax"]);
    folder.run(&["shaders", "gram/nosuch"]).refused(&["gram", "nosuch", "plain"]);
}
