//! replicas
