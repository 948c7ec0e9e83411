#include "dispatcher_check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "operand.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"
#include "tessera/tape.hpp"
#include "workbench.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;
enum Load { balanced, scattered, hot, dropping, kLoads };
constexpr std::string_view kNames[kLoads] = {
    "balanced", "random", "all to one expert", "half dropped"};

// What every rank knows of one rank's microbatch.
struct Batch {
  std::vector<i64> experts;  // [rows, top_k]
  Values x, weights, gradient;
};

Batch batch_of(const DispatcherCase& of, Load load, i64 rank, int microbatch) {
  Batch batch;
  const u64 seed = static_cast<u64>(100 * rank + 10 * microbatch + load);
  for (i64 choice = 0; choice < of.rows * of.top_k; ++choice) {
    const i64 row = choice / of.top_k, nth = choice % of.top_k;
    const u32 random = Philox::words(seed, {static_cast<u32>(row)})[0];
    i64 expert = (rank + microbatch + choice) % of.experts;
    if (load == scattered) expert = (random + nth * (1 + random % (of.experts - 1))) % of.experts;
    if (load == hot) expert = nth == 0 ? of.experts - 1 : nth - 1;
    if (load == dropping && (row + nth) % 2 == 0) expert = -1;
    batch.experts.push_back(expert);
  }
  const auto random = [&](i64 count, u64 salt) {
    return Operand::random({count}, DType::fp64, 1000 * salt + seed).values;
  };
  batch.x = random(of.rows * of.features, 1);
  batch.weights = random(of.rows * of.top_k, 2);
  batch.gradient = random(of.rows * of.features, 3);
  return batch;
}

double factor_of(i64 expert) { return 1 + 0.5 * static_cast<double>(expert); }

std::string difference(const Values& got, const Values& want, std::string_view what) {
  if (got.size() != want.size()) {
    return fmt::format("{}: {} values, expected {}", what, got.size(), want.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= 1e-12 * (1 + std::abs(want[i]))) continue;
    return fmt::format("{}: value {} is {}, expected {}", what, i, got[i], want[i]);
  }
  return {};
}

class RankCheck {
 public:
  RankCheck(LocalRank& rank, const DispatcherCase& of, Load load)
      : rank_(rank),
        of_(of),
        load_(load),
        local_(of.experts / rank.mesh().size(Axis::expert)),
        first_(local_ * rank.mesh().coordinate(Axis::expert)),
        parts_(static_cast<double>(rank.mesh().size(Axis::expert_tensor))),
        members_(rank.mesh().experts().members()) {}

  /// One line for each problem.
  std::vector<std::string> run() {
    Given given = {{"experts", of_.experts}, {"top_k", of_.top_k}};
    if (of_.padded) given.emplace_back("rows_per_expert", of_.rows);
    const auto dispatcher = rank_.build<TokenDispatcher>("dispatcher", of_.type, given);
    if (of_.padded && (dispatcher->shapes() != Shapes::fixed || !dispatcher->reads().empty())) {
      note("shapes are not fixed, or the host waits for something, with a capacity");
    }
    Tape tape;
    Context cx = rank_.context();
    cx.tape = &tape;
    cx.loss_scale = rank_.tensor({1}, DType::fp64, {1});
    std::vector<Flight> flights;
    for (int m = 0; m < 2; ++m) flights.push_back(start(cx, *dispatcher, m));
    for (int m = 0; m < 2; ++m) go_on(cx, *dispatcher, flights[static_cast<std::size_t>(m)], m);
    for (Flight& flight : flights) backward(cx, flight);
    return std::move(problems_);
  }

 private:
  // A microbatch on its way.
  struct Flight {
    Batch batch;
    Bundle bundle;
    ExpertRows rows;
    Tape::FrameId first = 0, second = 0;  // up to preprocess, from dispatch on
  };
  // A row at this rank's experts.
  struct Arrived {
    i64 expert;
    std::size_t choice;
    const Batch* from;
  };

  void note(const std::string& problem) {
    if (!problem.empty()) problems_.push_back(problem);
  }

  Flight start(Context& cx, const TokenDispatcher& dispatcher, int microbatch) {
    Flight flight{batch_of(of_, load_, rank_.index(), microbatch), rank_.bundle(), {}};
    const Batch& batch = flight.batch;
    std::vector<Tensor> inputs = {
        rank_.tensor({of_.rows, of_.features}, batch.x).with_var(kNeedsGradient),
        rank_.tensor({of_.rows, of_.top_k}, batch.weights).with_var(kNeedsGradient)};
    const Tensor experts = rank_.tensor(
        {of_.rows, of_.top_k}, DType::i32, Values(batch.experts.begin(), batch.experts.end()));
    flight.first = cx.tape->begin(inputs);
    flight.rows = dispatcher.preprocess(cx, flight.bundle, inputs[0], {experts, inputs[1]});
    cx.tape->end(std::array{flight.rows.x, flight.rows.weights});
    return flight;
  }

  void go_on(Context& cx, const TokenDispatcher& dispatcher, Flight& flight, int microbatch) {
    for (const HostSlot slot : dispatcher.reads()) flight.bundle.await(*cx.device, slot);
    std::array<Tensor, 2> sent = {std::move(flight.rows.x), std::move(flight.rows.weights)};
    flight.second = cx.tape->begin(sent);
    int calls = 0;
    const Meanwhile meanwhile = [&] { ++calls; };
    const ExpertRows rows = dispatcher.dispatch(cx, flight.bundle, {sent[0], sent[1]}, meanwhile);
    flight.bundle.arrive(*cx.stream);
    std::vector<Batch> all;
    for (const i64 member : members_) all.push_back(batch_of(of_, load_, member, microbatch));
    const std::vector<Arrived> expected = arrived(all);
    const Values counts = read(dispatcher.counts(flight.bundle));
    check_arrived(rows, counts, expected);
    const Tensor y = dispatcher.combine(cx, flight.bundle, experts(cx, rows, counts), meanwhile);
    flight.bundle.arrive(*cx.stream);
    if (calls != 2) note(fmt::format("meanwhile was called {} times in two phases", calls));
    const Tensor result = dispatcher.unpermute(cx, flight.bundle, y);
    cx.tape->end(std::array{result, Tensor()});
    for (const Tensor& left : flight.bundle.tensors()) {
      if (left.defined()) note(fmt::format("a bundle slot still holds {}", left));
    }
    Values sums(flight.batch.x.size(), 0);
    each_choice(flight.batch, [&](std::size_t choice, std::size_t at, double factor) {
      sums[at] += factor * flight.batch.weights[choice] * flight.batch.x[at];
    });
    note(difference(read(result), sums, "sums of the choices"));
  }

  std::vector<Arrived> arrived(const std::vector<Batch>& all) const {
    std::vector<Arrived> rows;
    for (i64 expert = first_; expert < first_ + local_; ++expert) {
      for (const Batch& from : all) {
        for (std::size_t choice = 0; choice < from.experts.size(); ++choice) {
          if (from.experts[choice] == expert) rows.push_back({expert, choice, &from});
        }
      }
    }
    return rows;
  }

  void check_arrived(const ExpertRows& rows,
                     const Values& counts,
                     const std::vector<Arrived>& expected) {
    Values x, weights, count(static_cast<std::size_t>(local_), 0);
    for (const Arrived& row : expected) {
      const auto begin =
          row.from->x.begin() + static_cast<i64>(row.choice) / of_.top_k * of_.features;
      x.insert(x.end(), begin, begin + of_.features);
      weights.push_back(row.from->weights[row.choice]);
      ++count[static_cast<std::size_t>(row.expert - first_)];
    }
    Values got_x = read(rows.x), got_weights = read(rows.weights);
    if (of_.padded) {
      const double places = static_cast<double>(of_.rows) * static_cast<double>(members_.size());
      const bool all = rank_.mesh().experts().size() > 1;
      if (all) note(difference(counts, Values(count.size(), places), "counts"));
      remove_empty(got_x, got_weights);
    } else {
      note(difference(counts, count, "counts"));
    }
    // What follows the last expert's rows is padding.
    if (got_x.size() > x.size()) got_x.resize(x.size());
    if (got_weights.size() > weights.size()) got_weights.resize(weights.size());
    note(difference(got_x, x, "rows at the experts"));
    note(difference(got_weights, weights, "weights at the experts"));
  }

  // Rows of places that are empty: no choice has the weight 0.
  void remove_empty(Values& x, Values& weights) {
    const auto h = static_cast<std::size_t>(of_.features);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto row = x.begin() + static_cast<std::ptrdiff_t>(i * h);
      if (weights[i] == 0) {
        if (std::any_of(row, row + of_.features, [](double value) { return value != 0; })) {
          note("an empty place is not zero");
        }
        continue;
      }
      std::copy(row, row + of_.features, x.begin() + static_cast<std::ptrdiff_t>(kept * h));
      weights[kept++] = weights[i];
    }
    x.resize(kept * h);
    weights.resize(kept);
  }

  // weight · factor of the expert · x, of which each of several parts of an expert gives a share.
  Tensor experts(Context& cx, const ExpertRows& rows, const Values& counts) const {
    const i64 m = rows.x.dim(0), h = of_.features;
    Values factors;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      const auto end = std::min(factors.size() + static_cast<std::size_t>(counts[e]),
                                static_cast<std::size_t>(m));
      factors.resize(end, factor_of(first_ + static_cast<i64>(e)) / parts_);
    }
    factors.resize(static_cast<std::size_t>(m), 0);
    const Values x = read(rows.x), weights = read(rows.weights);
    Values y(x.size());
    const auto row_of = [h](std::size_t i) { return i / static_cast<std::size_t>(h); };
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = factors[row_of(i)] * weights[row_of(i)] * x[i];
    }
    Tensor result = rank_.tensor({m, h}, y);
    LocalRank& rank = rank_;
    const auto input_half = [=, &rank](Context&, Gradients& g) {
      const Values gradient = read(g.output(0));
      Values dx(gradient.size()), dw(weights.size(), 0);
      for (std::size_t i = 0; i < dx.size(); ++i) {
        dx[i] = factors[row_of(i)] * weights[row_of(i)] * gradient[i];
        dw[row_of(i)] += factors[row_of(i)] * x[i] * gradient[i];
      }
      g.input(0, rank.tensor({m, h}, dx));
      g.input(1, rank.tensor({m}, dw));
    };
    cx.tape->record("experts", std::array{rows.x, rows.weights}, std::array{&result}, input_half);
    return result;
  }

  void backward(Context& cx, Flight& flight) {
    const Batch& batch = flight.batch;
    std::vector<Tape::Gradient> gradients =
        Tape::gradients({rank_.tensor({of_.rows, of_.features}, batch.gradient)});
    gradients.resize(2);
    cx.tape->backward(cx, flight.second, Half::both, gradients);
    cx.tape->backward(cx, flight.first, Half::both, gradients);
    Values dx(batch.x.size(), 0), dw(batch.weights.size(), 0);
    each_choice(batch, [&](std::size_t choice, std::size_t at, double factor) {
      dx[at] += factor * batch.weights[choice] * batch.gradient[at];
      dw[choice] += factor * batch.x[at] * batch.gradient[at];
    });
    const std::array<std::pair<std::string_view, const Values*>, 2> expected = {
        {{"gradient of the rows", &dx}, {"gradient of the weights", &dw}}};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      gradients[i].pending.wait(*cx.stream);
      const Tensor& gradient = gradients[i].tensor;
      if (!gradient.defined()) {
        note(fmt::format("{}: there is none", expected[i].first));
        continue;
      }
      note(difference(read(gradient), *expected[i].second, expected[i].first));
    }
  }

  // f(choice, element of x, factor) for what each choice that is not dropped contributes.
  template <class F>
  void each_choice(const Batch& batch, F&& f) const {
    for (std::size_t choice = 0; choice < batch.experts.size(); ++choice) {
      if (batch.experts[choice] < 0) continue;
      const i64 row = static_cast<i64>(choice) / of_.top_k;
      for (i64 i = 0; i < of_.features; ++i) {
        f(choice,
          static_cast<std::size_t>(row * of_.features + i),
          factor_of(batch.experts[choice]));
      }
    }
  }

  LocalRank& rank_;
  const DispatcherCase& of_;
  Load load_;
  i64 local_, first_;
  double parts_;
  const std::vector<i64>& members_;
  std::vector<std::string> problems_;
};

}  // namespace

std::string dispatcher_check(const LocalWorld& world, const DispatcherCase& of) {
  require(of.experts > 1 && of.experts % of.layout.expert == 0 && of.top_k <= of.experts,
          "dispatcher_check: {} experts, {} of them a token, on {} ranks",
          of.experts,
          of.top_k,
          of.layout.expert);
  LocalWorldOptions options;
  options.layout = of.layout;
  options.dtype = DType::fp64;
  options.values = of.values;
  options.deferred_seed = of.deferred_seed;
  std::string wrong;
  std::mutex mutex;
  for (int load = 0; load < kLoads; ++load) {
    const auto add = [&](i64 rank, std::string_view what) {
      const std::lock_guard lock(mutex);
      wrong += fmt::format("load {}, rank {}: {}\n", kNames[load], rank, what);
    };
    try {
      world.run(options, [&](LocalRank& rank) {
        RankCheck check(rank, of, static_cast<Load>(load));
        for (const std::string& problem : check.run()) add(rank.index(), problem);
      });
    } catch (const Error& error) {
      add(0, error.what());
    }
  }
  return wrong;
}

}  // namespace tessera::testing
