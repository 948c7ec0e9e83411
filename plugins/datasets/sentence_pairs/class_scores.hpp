#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "tessera/evaluation.hpp"

namespace tessera {

/// Throws ConfigError unless there is a list of `each` numbers for each of so many samples.
/// `what` is what they are: "one a class".
void check_scores(const SampleScores& scores, i64 samples, i64 each, std::string_view what);

/// Probabilities of classes that exclude each other, from their logits, in place.
void to_probabilities(SampleScores& scores);

/// Of each sample which class has the largest score; of equal ones the first.
std::vector<i64> likeliest_classes(const SampleScores& scores);

/// The share of `found` that equals `labels`; both have as many, one or more.
double accuracy(std::span<const i64> found, std::span<const i64> labels);

/// 2·tp / (2·tp + fp + fn) of class 1; 0 where none is found and none is there.
double f1_of_class_1(std::span<const i64> found, std::span<const i64> labels);

}  // namespace tessera
