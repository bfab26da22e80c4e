use super::MemoryStorage;
