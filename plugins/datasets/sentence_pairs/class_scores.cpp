#include "class_scores.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/error.hpp"

namespace tessera {

void check_scores(const SampleScores& scores, i64 samples, i64 each, std::string_view what) {
  require(static_cast<i64>(scores.size()) == samples,
          "scores of {} samples, and there are {}",
          scores.size(),
          samples);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (static_cast<i64>(scores[i].size()) != each) {
      fail_config("the model's head gives {} scores a sample, and the task needs {} ({})",
                  scores[i].size(),
                  each,
                  what);
    }
    if (std::ranges::any_of(scores[i], [](float score) { return std::isnan(score); })) {
      fail("the model's score of sample {} is no number", i);
    }
  }
}

void to_probabilities(SampleScores& scores) {
  for (std::vector<float>& of : scores) {
    const float most = *std::ranges::max_element(of);
    double sum = 0;
    for (const float score : of) sum += std::exp(double{score} - most);
    for (float& score : of) score = static_cast<float>(std::exp(double{score} - most) / sum);
  }
}

std::vector<i64> likeliest_classes(const SampleScores& scores) {
  std::vector<i64> found;
  for (const std::vector<float>& of : scores) {
    found.push_back(std::ranges::max_element(of) - of.begin());
  }
  return found;
}

double accuracy(std::span<const i64> found, std::span<const i64> labels) {
  i64 right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) right += found[i] == labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

double f1_of_class_1(std::span<const i64> found, std::span<const i64> labels) {
  i64 both = 0, either = 0;  // either: found, and there, each counted
  for (std::size_t i = 0; i < labels.size(); ++i) {
    both += found[i] == 1 && labels[i] == 1 ? 1 : 0;
    either += (found[i] == 1 ? 1 : 0) + (labels[i] == 1 ? 1 : 0);
  }
  return either == 0 ? 0 : 2 * static_cast<double>(both) / static_cast<double>(either);
}

}  // namespace tessera
