// What the sampling chain makes of logits, for sampling.py. Each line of the input has temperature,
// top_k, top_p, min_p, penalty, how many tokens the text has, these, and the logits; the answer has
// the weight of each token.
#include <fmt/format.h>

#include <iostream>
#include <sstream>

#include "kernel/train/run/sampling.hpp"

namespace tessera {
namespace {

std::string weights(const std::string& line) {
  std::istringstream in(line);
  Sampling sampling;
  std::size_t count = 0;
  in >> sampling.temperature >> sampling.top_k >> sampling.top_p >> sampling.min_p >>
      sampling.repetition_penalty >> count;
  std::vector<i32> text(count);
  for (i32& id : text) in >> id;
  std::vector<float> logits;
  for (float logit = 0; in >> logit;) logits.push_back(logit);
  std::string answer;
  for (const double weight : token_weights(logits, text, sampling)) {
    answer += fmt::format("{} ", weight);
  }
  return answer;
}

}  // namespace
}  // namespace tessera

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << tessera::weights(line) << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
