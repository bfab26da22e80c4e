//! How the program behaves on pipes, with colours, and when asked for help.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use sessionlog::Message;

use crate::support::{Fixture, SEVEN, program, run, run_bare};

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let fixture = Fixture::empty();
    fixture.write(|chats| {
        let said = (0..20_000).map(|n| Message::user(format!("message {n} of very many")));
        chats.append_all("web:1", said.collect()).wait().unwrap();
    });
    for (verb, args) in [("show", vec!["web:1"]), ("search", vec!["message"])] {
        let mut command = program();
        command.arg(verb).arg(fixture.dir()).args(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(line.contains("web:1"), "{line}");
        drop(out);
        let mut err = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), err.as_str()),
            (Some(0), ""),
            "{verb}"
        );
    }
}

#[test]
fn colours_are_for_terminals_and_for_who_asks() {
    let fixture = Fixture::new();
    let show = |args: &[&str]| run("show", &fixture.dir(), &[&[SEVEN], args].concat()).exits(0);
    assert!(!show(&[]).contains('\x1b'));
    assert!(show(&["--color", "always"]).contains('\x1b'));
    let mut command = program();
    command.args(["show"]).arg(fixture.dir()).arg(SEVEN);
    let output = command.env("NO_COLOR", "1").output().unwrap();
    assert!(!output.stdout.contains(&0x1b));
}

#[test]
#[cfg(not(any(feature = "postgres", feature = "serve")))]
fn a_command_that_is_not_built_in_says_how_to_get_it() {
    let fixture = Fixture::new();
    for (name, argument) in [("copy", "--follow"), ("serve", "--listen")] {
        let told = run(name, &fixture.dir(), &[argument]).fails();
        assert!(told.contains("--all-features"), "{told}");
    }
}

/// Every command below one, as the program lists them.
fn commands(of: &str) -> Vec<String> {
    let help = help(of);
    let listed = help.split_once("\nCommands:\n").unwrap_or_default().1;
    let listed = listed.lines().take_while(|line| !line.is_empty());
    // What a command does may go on in the next line, further in.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    let names = names.map(|name| format!("{of} {name}").trim().to_owned());
    names
        .flat_map(|name| std::iter::once(name.clone()).chain(commands(&name)))
        .collect()
}

fn help(of: &str) -> String {
    let args: Vec<&str> = of.split_whitespace().chain(["--help"]).collect();
    run_bare(&args).exits(0)
}

#[test]
fn every_command_explains_itself_with_examples() {
    let all = run_bare(&["--help"]).exits(0);
    assert!(
        all.contains("Exit codes:") && all.contains("Where to begin:"),
        "{all}"
    );
    let commands = commands("");
    assert!(
        commands.contains(&String::from("archive show")),
        "{commands:?}"
    );
    for command in commands {
        let help = help(&command);
        let is_there = !help.contains("(not in this build)");
        assert!(!is_there || help.contains("Examples:"), "{command}: {help}");
    }
    run_bare(&["no-such-command"]).fails();
}

#[test]
fn shells_and_man_are_told_of_every_command() {
    let commands = commands("");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run_bare(&["completions", shell]).exits(0);
        for name in commands.iter().flat_map(|command| command.split(' ')) {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let pages = scratch.path().join("share/man1");
    run_bare(&["man", "--out", pages.to_str().unwrap()]).exits(0);
    for command in commands {
        let page = format!("sessionlog-{}.1", command.replace(' ', "-"));
        assert!(pages.join(&page).exists(), "{page}");
    }
    assert!(run_bare(&["man"]).exits(0).contains(".TH sessionlog"));
}

#[test]
fn quiet_leaves_remarks_out_and_neither_results_nor_errors() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    let said = run("ls", &dir, &["-n", "1"]);
    assert!(said.err.contains("more than these"), "{}", said.err);
    let quiet = run("ls", &dir, &["-n", "1", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    assert_eq!(quiet.out, said.out);
    let err = run("ls", &fixture.beside("none"), &["-q"]).fails();
    assert!(err.contains("no directory"), "{err}");
}
