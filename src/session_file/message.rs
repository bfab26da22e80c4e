//! (skeleton)
use crate::Result;
/// One message.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Message { role: String }
#[allow(unused_variables, missing_docs)]
impl Message {
    pub fn user(text: impl Into<String>) -> Self { unimplemented!() }
    pub fn assistant(text: impl Into<String>) -> Self { unimplemented!() }
    pub fn system(text: impl Into<String>) -> Self { unimplemented!() }
    pub fn tool(call_id: impl Into<String>, text: impl Into<String>) -> Self { unimplemented!() }
    pub fn from_json(json: &[u8]) -> Result<Self> { unimplemented!() }
    pub fn role(&self) -> &str { unimplemented!() }
    pub fn text(&self) -> String { unimplemented!() }
}
