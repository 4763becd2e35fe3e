//! Two processes, one lane: `hello shm serve` in one terminal, `hello shm` in another; or tcp, or verbs.
//! Offers and regions are exchanged over a TCP connection here; any channel will do.

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fabric::{Memory, Pages, RemoteRegion, Rights, Side, Slices, drive, exchange, open};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let serves = args.get(1).is_some_and(|arg| arg == "serve");
    let fabric = open(args.first().map_or("shm", String::as_str))?;

    // Each end prepares a lane, sends its offer to the other, and connects.
    let mut wire = match serves {
        true => TcpListener::bind("127.0.0.1:7471")?.accept()?.0,
        false => TcpStream::connect("127.0.0.1:7471")?,
    };
    let unconnected = fabric.prepare_lane(if serves { Side::Accept } else { Side::Dial })?;
    let offer = exchange(&mut wire, &unconnected.offer())?;
    let (lane, driver) = drive(unconnected.connect(&offer, Duration::from_secs(5))?);
    tokio::spawn(driver);

    // Memory that the other end may read and write.
    let region = fabric.register(&Memory::allocate(4096, Pages::Auto)?, Rights::ALL)?;
    let ours = lane.grant(&region).await?;
    let theirs = RemoteRegion::from_bytes(&exchange(&mut wire, &ours.to_bytes())?)?;
    let window = lane.import(&theirs).await?;

    if serves {
        let (length, imm) = lane.receive(region.slice(..0)).await?;
        eprintln!("received {length} bytes with {imm:?}: {:?}", text(&region.slice(..length)));
        lane.receive(region.slice(..0)).await?; // until the other end is done
    } else {
        region.memory().write(0, b"straight into your memory");
        lane.write_imm(region.slice(..25), window.at(0), 7).await?;
        lane.read(region.slice(100..125), window.at(0)).await?;
        eprintln!("read back: {:?}", text(&region.slice(100..125)));
        lane.send(Slices::EMPTY).await?;
    }
    Ok(())
}

fn text(slice: &fabric::Slice) -> String {
    String::from_utf8_lossy(&slice.to_vec()).into_owned()
}
