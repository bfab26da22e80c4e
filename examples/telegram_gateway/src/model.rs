//! A model behind the API of `OpenAI`'s chat completions.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::{ApiErrorResponse, OpenAIError};
use async_openai::types::chat::{
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
    CreateChatCompletionRequest,
};
use futures_util::StreamExt;

/// What is asked of a model, and how.
pub struct Model {
    client: Client<OpenAIConfig>,
    name: String,
}

impl Model {
    /// A model called `name` at an address such as `https://api.openai.com/v1`.
    #[must_use]
    pub fn new(base: &str, api_key: &str, name: &str) -> Self {
        let config = OpenAIConfig::new()
            .with_api_base(base)
            .with_api_key(api_key);
        let client = Client::with_config(config);
        let name = name.to_owned();
        Self { client, name }
    }

    /// Returns the name of the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a conversation, as roles and texts, and collects the text that the model streams.
    ///
    /// # Errors
    /// Those of the connection and of the model. A stream that breaks off is an error: half an
    /// answer is none.
    pub async fn answer(&self, conversation: &[(&str, String)]) -> Result<String, OpenAIError> {
        let messages = conversation.iter().map(|(role, text)| message(role, text));
        let request = CreateChatCompletionRequest {
            model: self.name.clone(),
            messages: messages.collect(),
            ..Default::default()
        };
        let mut stream = self.client.chat().create_stream(request).await?;
        let (mut text, mut is_finished) = (String::new(), false);
        while let Some(chunk) = stream.next().await {
            for choice in chunk?.choices {
                text.push_str(choice.delta.content.as_deref().unwrap_or_default());
                is_finished |= choice.finish_reason.is_some();
            }
        }
        if !is_finished || text.trim().is_empty() {
            let why = String::from("the model's answer broke off");
            return Err(OpenAIError::InvalidArgument(why));
        }
        Ok(text)
    }
}

/// Returns true if the model would refuse the same request again.
#[must_use]
pub fn is_permanent(error: &OpenAIError) -> bool {
    let OpenAIError::ApiError(ApiErrorResponse { status_code, .. }) = error else {
        return false;
    };
    // A time-out, a conflict, and a client that is too early or too fast.
    let is_temporary = matches!(status_code.as_u16(), 408 | 409 | 425 | 429);
    status_code.is_client_error() && !is_temporary
}

fn message(role: &str, text: &str) -> ChatCompletionRequestMessage {
    match role {
        "system" => ChatCompletionRequestSystemMessage::from(text).into(),
        "assistant" => ChatCompletionRequestAssistantMessage::from(text).into(),
        _ => ChatCompletionRequestUserMessage::from(text).into(),
    }
}
