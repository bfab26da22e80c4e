//! The viewer, and what needs a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use sessionlog::Store;

use crate::support::{program, run};

/// What a server answers to a GET, head and body.
fn get(address: &str, target: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let ask = format!(
        "GET {target} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_viewer_shows_a_store_to_who_has_the_token_and_to_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Store::open(dir.path()).unwrap();
    let chats = gateway.handle();
    chats
        .add_message("telegram:1", "user", "hi there")
        .wait()
        .unwrap();
    let mut serving = program()
        .arg("serve")
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let mut out = BufReader::new(serving.stdout.take().unwrap());
    out.read_line(&mut url).unwrap();
    let rest = url.trim().strip_prefix("http://").unwrap();
    let (address, target) = rest.split_once('/').unwrap();
    let refused = get(address, "/api/sessions", "");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let welcome = get(address, &format!("/{target}"), "");
    let cookie = welcome.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("set-cookie");
        is_it.then(|| value.trim().split(';').next().unwrap_or("").to_owned())
    });
    let shown = get(address, "/api/sessions", &cookie.expect("a cookie"));
    assert!(shown.contains("telegram:1"), "{shown}");
    serving.kill().unwrap();
    serving.wait().unwrap();
    gateway.close().unwrap();
}

#[test]
fn an_address_that_others_reach_has_to_be_meant() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path()).unwrap().close().unwrap();
    let told = run("serve", dir.path(), &["--listen", "0.0.0.0:0"]).fails();
    assert!(told.contains("--beyond-loopback"), "{told}");
}

#[test]
fn a_copy_to_a_server_that_is_not_there_says_so() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path()).unwrap().close().unwrap();
    let nobody = "postgres://bot@127.0.0.1:1/chats?connect_timeout=1";
    let told = run("copy", dir.path(), &[nobody]).fails();
    assert!(told.contains("is the server there"), "{told}");
}
