//! One of the processes: it appends when it is told to, and says how long each append took.

use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::contender::{Contender, Contenders};
use crate::figures::Rate;
use crate::{Args, Failed};

/// A process, as the one that started it sees it. It ends with its input.
pub(crate) struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(args: &Args, number: usize) -> Result<Self, Failed> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(&args.dsn)
            .args(["--worker", &number.to_string()])
            .args(["--processes", &args.processes.to_string()])
            .args(["--connections", &args.connections.to_string()])
            .args(["--seconds", &args.seconds.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let mut worker = Self {
            child,
            orders,
            answers: BufReader::new(answers.ok_or("it says nothing")?),
        };
        worker.answer()?;
        Ok(worker)
    }

    fn answer(&mut self) -> Result<String, Failed> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a process ended".into());
        }
        Ok(line)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It ends with its input; nothing is to be done if it ended before.
        let _ = self.child.wait();
    }
}

/// What all processes together come to.
pub(crate) fn measure(
    workers: &mut [Worker],
    contender: Contender,
    producers: usize,
) -> Result<Rate, Failed> {
    for worker in workers.iter_mut() {
        let orders = worker.orders.as_mut().ok_or("it takes no orders")?;
        writeln!(orders, "{contender} {producers}")?;
    }
    let (mut took, mut per_second) = (Vec::new(), 0.0);
    for worker in workers {
        let answer = worker.answer()?;
        let mut numbers = answer.split_whitespace();
        per_second += numbers.next().ok_or("it says no rate")?.parse::<f64>()?;
        for number in numbers {
            took.push(number.parse::<u64>()?);
        }
    }
    Ok(Rate::of(took, per_second))
}

/// The process itself.
pub(crate) async fn work(args: &Args, number: usize) -> Result<(), Failed> {
    let contenders = Contenders::open(&args.dsn, args.connections).await?;
    println!("ready");
    for order in std::io::stdin().lines() {
        let order = order?;
        let (name, producers) = order.split_once(' ').ok_or("no order")?;
        let producers: usize = producers.parse()?;
        let contender = Contender::named(name).ok_or("nobody has that name")?;
        let own = (0..producers).filter(|producer| producer % args.processes == number);
        let contenders = contenders.clone();
        let took = append(
            own,
            Duration::from_secs_f64(args.seconds),
            move |producer| {
                let contenders = contenders.clone();
                async move { contenders.append(contender, producer).await }
            },
        );
        println!("{}", took.await?);
    }
    contenders.store.close().await?;
    Ok(())
}

/// Has producers append for a while, each one after the other: the rate, and what each append
/// took.
async fn append<F>(
    producers: impl Iterator<Item = usize>,
    during: Duration,
    append: impl Fn(usize) -> F + Send + Sync + Clone + 'static,
) -> Result<String, Failed>
where
    F: Future<Output = Result<(), Failed>> + Send,
{
    let begun = Instant::now();
    let tasks = producers.map(|producer| {
        let append = append.clone();
        tokio::spawn(async move {
            let mut took = Vec::new();
            while begun.elapsed() < during {
                let at = Instant::now();
                append(producer).await?;
                took.push(at.elapsed().as_micros());
            }
            Ok::<_, Failed>(took)
        })
    });
    let mut took = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        took.extend(task.await??);
    }
    let many = f64::from(u32::try_from(took.len())?);
    let mut told = (many / begun.elapsed().as_secs_f64()).to_string();
    for one in took {
        told.push(' ');
        told.push_str(&one.to_string());
    }
    Ok(told)
}
