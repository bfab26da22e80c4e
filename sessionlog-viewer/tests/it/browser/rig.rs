//! A browser, a viewer, and what a test does with them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::StoreHandle;
use sessionlog_viewer::{Viewer, ViewerOptions};
use tempfile::TempDir;
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities;
use thirtyfour::{By, CapabilitiesHelper, DesiredCapabilities, Key, WebDriver};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::trap::Trap;

/// Far longer than anything takes: what did not happen by then does not happen.
const LIMIT: Duration = Duration::from_secs(40);

/// One browser at a time: more on a small machine only make each other slow.
static TURN: Mutex<()> = Mutex::const_new(());

/// A browser before a viewer.
pub(super) struct Rig {
    driver: WebDriver,
    trap: Trap,
    pub(super) url: String,
    pub(super) base: String,
    _chromedriver: Child,
    _profile: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// A viewer of `store`, and a browser that has not been there yet; `None` if this machine has
/// no browser, and none is required.
pub(super) async fn rig(store: StoreHandle) -> Option<Rig> {
    let turn = TURN.lock().await;
    let (Some(chromium), Some(chromedriver)) = (program("chromium"), program("chromedriver"))
    else {
        let message = "no chromium and chromedriver: apt-get install chromium chromium-driver";
        let required = std::env::var("SESSIONLOG_BROWSER").is_ok_and(|value| value == "required");
        assert!(!required, "SESSIONLOG_BROWSER=required, and {message}");
        let test = std::thread::current();
        let test = test.name().unwrap_or("a test").to_owned();
        // Past the harness, which keeps what a passing test says to itself.
        let skipped = format!("SKIPPED {test}: {message}\n");
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
        return None;
    };
    let (url, base) = serve(store).await;
    let trap = Trap::set().await;
    let profile = tempfile::tempdir().unwrap();
    let (process, port) = start(&chromedriver).await;
    let capabilities = capabilities(&chromium, profile.path(), trap.port);
    let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), capabilities);
    Some(Rig {
        driver: driver.await.unwrap(),
        trap,
        url,
        base,
        _chromedriver: process,
        _profile: profile,
        _turn: turn,
    })
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|dir| dir.join(name));
    found.find(|program| program.is_file())
}

async fn serve(store: StoreHandle) -> (String, String) {
    let options = ViewerOptions::new().poll_every(Duration::from_millis(200));
    let viewer = Viewer::new(store, options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let url = viewer.url(addr);
    tokio::spawn(async move { viewer.serve(listener).await });
    (url, format!("http://{addr}/"))
}

async fn start(chromedriver: &Path) -> (Child, u16) {
    let mut process = Command::new(chromedriver)
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            let port = port.trim_end_matches('.').parse().unwrap();
            // A pipe that nobody reads fills up.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return (process, port);
        }
    }
    panic!("chromedriver ended before it served");
}

fn capabilities(chromium: &Path, profile: &Path, proxy: u16) -> thirtyfour::ChromeCapabilities {
    let mut capabilities = DesiredCapabilities::chrome();
    capabilities.set_binary(chromium.to_str().unwrap()).unwrap();
    for flag in [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--lang=en-GB",
        "--window-size=1280,800",
        "about:blank",
        &format!("--user-data-dir={}", profile.display()),
        &format!("--proxy-server=http://127.0.0.1:{proxy}"),
    ] {
        capabilities.add_arg(flag).unwrap();
    }
    let logs = json!({ "browser": "ALL", "performance": "ALL" });
    capabilities.set("goog:loggingPrefs", logs).unwrap();
    capabilities
}

impl Rig {
    /// Opens the viewer by its URL, and waits for the list.
    pub(super) async fn open(&self) {
        self.driver.goto(&self.url).await.unwrap();
        self.holds("document.querySelectorAll('#rows a').length > 0")
            .await;
    }

    /// Opens a session by its address, and waits for messages.
    pub(super) async fn open_session(&self, key: &str) {
        let to = format!(
            "location.hash = '#/s/' + encodeURIComponent({})",
            json!(key)
        );
        self.run(&to).await;
        self.holds(&format!(
            "document.querySelector('#key')?.textContent !== '' && {MESSAGES}.length > 0"
        ))
        .await;
    }

    pub(super) async fn goto(&self, url: &str) {
        self.driver.goto(url).await.unwrap();
    }

    /// What an expression of the page's comes to.
    pub(super) async fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression})");
        let result = self.driver.execute(script, Vec::new()).await.unwrap();
        result.json().clone()
    }

    pub(super) async fn text(&self, expression: &str) -> String {
        let value = self.value(expression).await;
        value
            .as_str()
            .unwrap_or_else(|| panic!("{expression}: {value}"))
            .to_owned()
    }

    pub(super) async fn number(&self, expression: &str) -> f64 {
        let value = self.value(expression).await;
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{expression}: {value}"))
    }

    pub(super) async fn run(&self, script: &str) {
        self.driver.execute(script, Vec::new()).await.unwrap();
    }

    /// Waits until an expression is true.
    pub(super) async fn holds(&self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.value(&format!("Boolean({expression})")).await != json!(true) {
            if Instant::now() > deadline {
                let page = self.text("document.body.innerText.slice(0, 2000)").await;
                let log = self.driver.browser_log().await;
                panic!("never held: {expression}\n{page}\n{log:?}");
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Waits until this text shows in the conversation.
    pub(super) async fn shows(&self, text: &str) {
        let text = json!(text);
        self.holds(&format!(
            "document.querySelector('#feed').innerText.includes({text})"
        ))
        .await;
    }

    pub(super) async fn click(&self, selector: &str) {
        let found = self.driver.find(By::Css(selector)).await;
        found.unwrap().click().await.unwrap();
    }

    /// Types on whatever has the focus.
    pub(super) async fn press(&self, keys: &str) {
        let typed = self.driver.action_chain().send_keys(keys);
        typed.perform().await.unwrap();
    }

    pub(super) async fn press_key(&self, key: Key) {
        let typed = self.driver.action_chain().send_keys(key);
        typed.perform().await.unwrap();
    }

    /// The screen of a telephone or a desk.
    pub(super) async fn screen(&self, width: u32, height: u32) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700,
        });
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
            .await;
        self.holds(&format!("innerWidth === {width}")).await;
    }

    pub(super) async fn scheme(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.cdp("Emulation.setEmulatedMedia", features).await;
        self.holds(&format!(
            "matchMedia('(prefers-color-scheme: {scheme})').matches"
        ))
        .await;
    }

    async fn cdp(&self, method: &str, parameters: Value) {
        self.driver
            .cdp()
            .send_raw(method, parameters)
            .await
            .unwrap();
    }

    /// Keeps a picture of what is seen, in the directory of what tests leave.
    pub(super) async fn picture(&self, name: &str) -> PathBuf {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("viewer");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{name}.png"));
        self.driver.screenshot(&path).await.unwrap();
        path
    }

    /// Ends the browser. Nothing was asked of another host, by the browser's own account and
    /// by the trap's, and the page made no error.
    pub(super) async fn end(self) {
        let mut asked = Vec::new();
        for entry in self.driver.get_log("performance").await.unwrap() {
            let event: Value = serde_json::from_str(&entry.message).unwrap();
            let event = &event["message"];
            if event["method"] == "Network.requestWillBeSent" {
                asked.push(
                    event["params"]["request"]["url"]
                        .as_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
        assert!(
            asked.iter().any(|url| url.contains("/api/sessions")),
            "{asked:?}"
        );
        // Its own pages, as that of a new tab, are in the browser.
        let within = [&*self.base, "data:", "chrome:"];
        asked.retain(|url| !within.iter().any(|known| url.starts_with(known)));
        assert_eq!(asked, [""; 0], "asked of others");
        assert_eq!(self.trap.asked(), [""; 0], "asked of others");
        let log = self.driver.browser_log().await.unwrap();
        let errors = log.iter().map(|entry| entry.message.clone());
        let errors: Vec<_> = errors.filter(|error| !is_expected(error)).collect();
        assert_eq!(errors, [""; 0]);
        self.driver.quit().await.unwrap();
    }

    /// As [`end`](Self::end), of a page that was refused something on purpose.
    pub(super) async fn quit(self) {
        assert_eq!(self.trap.asked(), [""; 0], "asked of others");
        self.driver.quit().await.unwrap();
    }
}

/// The browser notes every answer that is no success, as of a session that was deleted.
fn is_expected(error: &str) -> bool {
    error.contains("404 (Not Found)") || error.contains("409 (Conflict)")
}

/// The messages that are there.
pub(super) const MESSAGES: &str = "document.querySelectorAll('#feed .item:not(.missing)')";
