//! What a `tail(50)` of a session of 10,000 messages takes, and its bare query.

use std::time::{Duration, Instant};

use sessionlog::Message;
use sessionlog_postgres::PostgresStore;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::{Failed, TEXT};

/// How often each is asked, in turns.
const TIMES: usize = 1000;

pub(crate) async fn measure(store: &PostgresStore, client: &Client) -> Result<(), Failed> {
    let said = (0..10_000).map(|n| Message::user(format!("{n} {TEXT}")));
    store.set_history("long", said.collect()).await?;
    client.batch_execute("VACUUM ANALYZE bench.lines").await?;
    let id = "SELECT session_id FROM bench.sessions WHERE key = 'long'";
    let id: i64 = client.query_typed(id, &[]).await?[0].get(0);
    let sql = "SELECT line FROM bench.lines WHERE session_id = $1 AND kind = 0
         ORDER BY line_at DESC LIMIT 50";
    let prepared = client.prepare(sql).await?;
    let (mut of_store, mut of_named, mut of_plain) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let at = Instant::now();
        assert_eq!(store.tail("long", 50).await?.len(), 50);
        of_store.push(at.elapsed());
        let at = Instant::now();
        decode(&client.query(&prepared, &[&id]).await?)?;
        of_named.push(at.elapsed());
        let at = Instant::now();
        decode(&client.query_typed(sql, &[(&id, Type::INT8)]).await?)?;
        of_plain.push(at.elapsed());
    }
    let store = quarter_and_median(of_store);
    println!(
        "tail(50), store: quickest quarter {:.0?}, median {:.0?}",
        store[0], store[1]
    );
    for (name, all) in [("prepared", of_named), ("not prepared", of_plain)] {
        let other = quarter_and_median(all);
        println!(
            "  bare query, {name}: {:.0?}, {:.0?}; store to it {:.2}x, {:.2}x",
            other[0],
            other[1],
            store[0].as_secs_f64() / other[0].as_secs_f64(),
            store[1].as_secs_f64() / other[1].as_secs_f64(),
        );
    }
    Ok(())
}

fn decode(rows: &[Row]) -> Result<(), Failed> {
    let decoded = rows.iter().map(|row| Message::from_json(row.get(0)));
    assert_eq!(decoded.collect::<Result<Vec<_>, _>>()?.len(), 50);
    Ok(())
}

fn quarter_and_median(mut all: Vec<Duration>) -> [Duration; 2] {
    all.sort_unstable();
    [all[all.len() / 4], all[all.len() / 2]]
}
