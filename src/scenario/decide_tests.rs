//! Tests of `decide`: tables of small scenarios, and a comparison with a plain reference model.
