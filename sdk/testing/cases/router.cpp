#include "cases.hpp"

namespace tessera::testing {
namespace {

constexpr std::pair<RouterScore, const char*> kScores[] = {
    {RouterScore::softmax, "softmax"},
    {RouterScore::softmax_before, "softmax_before"},
    {RouterScore::sigmoid, "sigmoid"},
    {RouterScore::sqrt_softplus, "sqrt_softplus"}};

struct RouterSize {
  i64 n, experts, k, groups = 1, group_k = 1;
};

void add_size(Cases& cases, const RouterSize& s) {
  for (const auto& [score, name] : kScores) {
    const RouterSpec spec{.top_k = s.k,
                          .score = score,
                          .groups = s.groups,
                          .group_top_k = s.group_k,
                          .scale = s.k == 8 ? 2.5 : 1};
    const std::string text = fmt::format(
        "{} top {} of {}x{} in {} of {}", name, s.k, s.n, s.experts, s.group_k, s.groups);
    const auto logits = [&] { return cases.random({s.n, s.experts}, -4, 4); };
    TopkExpertsArgs choose;
    choose.spec = spec;
    cases.add(text, choose, {logits(), Operand::absent(), Operand::result()});
    cases.add(text + " bias",
              choose,
              {logits(), cases.random({s.experts}, cases.statistic(), -1, 1), Operand::result()});
    // Some choices are dropped.
    const auto experts = [&] { return cases.integers({s.n, s.k}, DType::i32, -1, s.experts + 1); };
    RouterWeightsArgs weigh;
    weigh.spec = spec;
    const OpOptions options{.tolerance = {.relative = 5e-6}};
    cases.add(text, weigh, {logits(), experts(), Operand::result()}, options);
    // Where a row keeps one choice its gradient is 0, the difference of terms near 1.
    const OpOptions of_differences{.tolerance = {.relative = 5e-6, .absolute = 1e-7}};
    RouterWeightsBackwardArgs back;
    back.spec = spec;
    cases.add(text,
              back,
              {cases.random({s.n, s.k}, cases.statistic(), -1, 1),
               logits(),
               experts(),
               Operand::result()},
              of_differences);
  }
}

void add_auxiliary(Cases& cases, i64 n, i64 experts) {
  const i64 positions = n / 2 + 1;  // rows of two sequences, not from the first one's start
  const SequenceRows rows{.first = 1, .positions = positions, .sequences = 2};
  const auto logits = [&] { return cases.random({n, experts}, -4, 4); };
  const auto counts = [&] { return cases.integers({2, experts}, DType::i64, 0, 9); };
  const OpOptions options{.tolerance = {.relative = 5e-6}};
  for (const auto& [score, name] : kScores) {
    const std::string text = fmt::format("{} {}x{}", name, n, experts);
    BalanceLossArgs balance;
    balance.rows = rows;
    balance.score = score;
    balance.factor = 0.5;
    cases.add(text, balance, {logits(), counts(), cases.scalar(0.25), Operand::result()}, options);
    BalanceGradArgs back;
    back.rows = rows;
    back.score = score;
    back.factor = 0.5;
    cases.add(text,
              back,
              {logits(), counts(), cases.scalar(0.25), cases.scalar(-3), Operand::result()},
              options);
    balance.fractions = back.fractions = true;
    cases.add(text + " fractions",
              balance,
              {logits(), counts(), cases.scalar(0.25), Operand::result()},
              options);
    cases.add(text + " fractions",
              back,
              {logits(), counts(), cases.scalar(0.25), cases.scalar(-3), Operand::result()},
              options);
  }
  const std::string text = fmt::format("{}x{}", n, experts);
  ZLossArgs z;
  z.factor = 0.125;
  cases.add(text, z, {logits(), cases.scalar(0.5), Operand::result()}, options);
  ZLossGradArgs back;
  back.factor = 0.125;
  cases.add(
      text, back, {logits(), cases.scalar(0.5), cases.scalar(-3), Operand::result()}, options);
}

// `sequences` of 6 rows in two parts; the rows of this rank begin within the second part.
void add_expert_choice(Cases& cases, i64 sequences, i64 experts) {
  ExpertChoiceArgs choose;
  choose.rows = 2;
  choose.length = 6;
  choose.parts = 2;
  choose.first = 3 * sequences + 1;
  choose.n = 3 * sequences - 1;
  std::vector<double> positions;
  for (const double first : {3.0, 0.0}) {
    for (i64 s = 0; s < sequences; ++s) {
      for (const double i : {0.0, 1.0, 2.0}) positions.push_back(first + i);
    }
  }
  for (const i64 seen : {0, 4}) {
    choose.seen = seen;
    cases.add(fmt::format("{} of {}{}", sequences, experts, seen > 0 ? ", padded" : ""),
              choose,
              {cases.random({6 * sequences, experts}, -4, 4),
               Operand::given({6 * sequences}, DType::i64, positions),
               Operand::result()});
  }
}

void add_input_and_bias(Cases& cases) {
  for (const auto& [n, width] : {std::pair<i64, i64>{3, 5}, {33, 64}, {0, 4}}) {
    JitterArgs jitter;
    jitter.key = 17;
    jitter.eps = 0.125;
    cases.add(fmt::format("{}x{}", n, width),
              jitter,
              {cases.random({n, width}, -2, 2), cases.rows(n, 4), Operand::result()});
  }
  for (const double skipped : {0.0, 1.0}) {
    ExpertBiasArgs move;
    move.rate = 0.25;
    cases.add(
        fmt::format("skipped {}", skipped),
        move,
        {cases.scalar(skipped), cases.random({7}, -1, 1), cases.integers({7}, DType::i64, 0, 4)});
  }
}

}  // namespace

void add_router_cases(Cases& cases) {
  const RouterSize sizes[] = {{1, 1, 1},
                              {3, 8, 2},
                              {33, 17, 4},
                              {127, 64, 8, 8, 4},
                              {5, 256, 8, 8, 4},
                              {7, 12, 6, 3, 2},
                              {0, 4, 2}};
  for (const RouterSize& s : sizes) add_size(cases, s);
  for (const auto& [n, experts] : {std::pair<i64, i64>{1, 1}, {33, 17}, {126, 64}, {0, 4}}) {
    add_auxiliary(cases, n, experts);
  }
  for (const auto& [sequences, experts] : {std::pair<i64, i64>{1, 1}, {3, 5}}) {
    add_expert_choice(cases, sequences, experts);
  }
  add_input_and_bias(cases);
}

}  // namespace tessera::testing
