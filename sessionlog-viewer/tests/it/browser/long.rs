//! A conversation of 100,000 messages.

use super::rig::{MESSAGES, Rig, rig};
use crate::stores;

const MANY: usize = 100_000;

async fn seen(rig: &Rig, index: usize) {
    let text = format!("message {index}");
    rig.holds(&format!(
        "[...{MESSAGES}].some((item) => {{
            const box = item.getBoundingClientRect();
            const feed = document.querySelector('#feed').getBoundingClientRect();
            return item.querySelector('.text')?.textContent === '{text}'
                && box.bottom > feed.top && box.top < feed.bottom;
        }})"
    ))
    .await;
    let items = rig
        .number("document.querySelectorAll('#feed .item').length")
        .await;
    assert!(items < 120.0, "{items} messages are in the page");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_scrolls_smoothly_to_its_beginning_its_end_and_anywhere() {
    let store = stores::empty();
    stores::numbered(&store.chats, "long", MANY);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.open_session("long").await;
    seen(&rig, MANY - 1).await;
    rig.press("g").await;
    seen(&rig, 0).await;
    rig.shows("The conversation begins here").await;
    rig.press("G").await;
    seen(&rig, MANY - 1).await;

    // As by the scroll bar: to the middle, and to both ends.
    let scroll = "document.querySelector('#feed').scrollTop = ";
    rig.run(&format!(
        "const f = document.querySelector('#feed'); {scroll} f.scrollHeight / 2"
    ))
    .await;
    let first = format!("Number({MESSAGES}[0]?.dataset.index)");
    rig.holds(&format!("{first} > 45000 && {first} < 55000"))
        .await;
    rig.run(&format!("{scroll} 0")).await;
    seen(&rig, 0).await;
    rig.run(&format!("{scroll} 1e9")).await;
    seen(&rig, MANY - 1).await;

    // Now with some of very different heights.
    let uneven = (0..400)
        .map(|n| sessionlog::Message::assistant(format!("line of {n}\n").repeat(n * 7 % 23 + 1)));
    store
        .chats
        .append_all("long", uneven.collect::<Vec<_>>())
        .wait()
        .unwrap();
    rig.shows("line of 399").await;
    scrolls_smoothly(&rig).await;
    rig.end().await;
}

/// Each frame shows what follows on what the last one showed, with no gap and no jump.
async fn scrolls_smoothly(rig: &Rig) {
    rig.run(SCROLLER).await;
    rig.holds("window.scrolled").await;
    let problems = rig.text("window.scrolled.problems.join('; ')").await;
    assert_eq!(problems, "");
    let seen = rig.number("window.scrolled.seen").await;
    assert!(seen > 40.0, "{seen} messages were seen");
    let slowest = rig.text("window.scrolled.frames").await;
    println!("frames, ms: {slowest}");
}

/// Scrolls up by 120 pixels a frame, and looks whether all that is in sight moved by as much.
const SCROLLER: &str = r"
    const feed = document.querySelector('#feed');
    const places = () => new Map([...feed.querySelectorAll('.item')]
        .map((item) => [Number(item.dataset.index), item.getBoundingClientRect().top])
        .filter(([, top]) => top > -50 && top < 700));
    const problems = [];
    const seen = new Set();
    const times = [];
    const wait = () => new Promise(requestAnimationFrame);
    (async () => {
        for (let frame = 0; frame < 150; frame += 1) {
            const before = places();
            const began = performance.now();
            feed.scrollTop -= 120;
            await wait();
            await wait();
            times.push(performance.now() - began);
            for (const [index, top] of places()) {
                seen.add(index);
                const last = before.get(index);
                if (last !== undefined && Math.abs(top - last - 120) > 2) {
                    problems.push(`frame ${frame}: ${index} moved by ${top - last}`);
                }
            }
        }
        const all = [...seen].sort((a, b) => a - b);
        all.forEach((index, at) => { if (at && index !== all[at - 1] + 1) problems.push(`${index} follows on ${all[at - 1]}`); });
        times.sort((a, b) => a - b);
        const frames = `median ${times[75].toFixed(1)}, 95 % ${times[142].toFixed(1)}, most ${times.at(-1).toFixed(1)} for two`;
        window.scrolled = { problems: problems.slice(0, 5), seen: all.length, frames };
    })();
";
