#pragma once
#include "tessera/types.hpp"

namespace tessera {

// Upper bounds of the numbers that a user writes, for `FieldBuilder::at_most`:
//
//     s.field("ffn", &Config::ffn, "inner features").at_least(1).at_most(kMostInnerFeatures);
//
// Every integer key has one: a value with three zeros too many is refused where it is written, with
// the range, and neither overflows nor keeps the program busy for hours. They are far beyond what
// anyone trains, and such that what is usually multiplied stays within 64 bits: samples of a run,
// elements of a matrix, rows of a batch, ranks of a layout. A key whose limit follows from its
// meaning, as iterations of a rule, states its own.

/// Largest seed. FieldSpec keeps bounds as doubles, which are exact up to here.
inline constexpr i64 kMostSeed = (i64{1} << 53) - 1;
/// Ranks of a run (RankGenerator multiplies three such numbers), and those along one axis.
inline constexpr i64 kMostRanks = i64{1} << 20;
inline constexpr i64 kMostOnAxis = i64{1} << 15;
/// CPU threads of a rank.
inline constexpr i64 kMostThreads = 1024;
/// Steps of a run, and whatever is counted in steps or over a run: samples, checkpoints.
inline constexpr i64 kMostSteps = 100'000'000'000;
/// Sequences of a step, and its microbatches.
inline constexpr i64 kMostSequences = i64{1} << 24;
/// Positions of a sequence: what a row's number has room for (random.hpp).
inline constexpr i64 kMostPositions = i64{1} << 24;
/// Entries of a vocabulary.
inline constexpr i64 kMostVocabulary = i64{1} << 24;
/// Layers of a model, and model chunks on a rank.
inline constexpr i64 kMostLayers = 10'000;
/// Features of a position, and heads.
inline constexpr i64 kMostFeatures = i64{1} << 18;
/// Features inside an MLP or an expert: usually four times those of a position.
inline constexpr i64 kMostInnerFeatures = i64{1} << 20;
/// Rows or columns of one matrix, several fused ones included: queries, keys and values; gate and
/// up.
inline constexpr i64 kMostMatrixSide = i64{1} << 22;
/// Experts of a layer.
inline constexpr i64 kMostExperts = i64{1} << 16;
/// Elements of a buffer, or rows of a tensor.
inline constexpr i64 kMostElements = i64{1} << 40;
/// Seconds of a time limit: a year.
inline constexpr i64 kMostSeconds = 30'000'000;
/// Size of a float, positive or negative, whose field states no bound on that side: FP32 holds it.
inline constexpr double kMostReal = 1e38;

}  // namespace tessera
