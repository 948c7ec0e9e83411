#include "group_conformance_support.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {

namespace {

// Sizes around borders of the message paths: small, odd, 4 KiB of several types, cut unevenly.
std::vector<i64> sizes_for(DType dtype) {
  if (dtype != DType::fp32) return {1, 17, 1025, 5003};
  return {1, 3, 17, 512, 1000, 1024, 1025, 2049, 5003, 20001};
}

constexpr DType kTypes[] = {DType::fp64,
                            DType::fp32,
                            DType::fp16,
                            DType::bf16,
                            DType::i64,
                            DType::i32,
                            DType::u8,
                            DType::boolean};

Tensor inputs_of(TestRank& rank, i64 elements, DType dtype, u64 salt) {
  return filled(
      rank.device, elements, dtype, [&](i64 i) { return small_value(rank.rank, i, salt, dtype); });
}

Tensor poisoned(TestRank& rank, i64 elements, DType dtype) {
  return filled(rank.device, elements, dtype, [](i64) { return 1; });
}

double reduced(const ProcessGroup& group, i64 i, ReduceOp op, u64 salt, DType dtype) {
  double result = small_value(group.members()[0], i, salt, dtype);
  for (std::size_t m = 1; m < group.members().size(); ++m) {
    const double next = small_value(group.members()[m], i, salt, dtype);
    if (op == ReduceOp::sum) result += next;
    if (op == ReduceOp::max) result = std::max(result, next);
    if (op == ReduceOp::min) result = std::min(result, next);
  }
  return result;
}

}  // namespace

void check_all_reduce(TestRank& rank) {
  const auto group = make_world_group(rank);
  u64 salt = 1;
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      if (dtype == DType::boolean && op == ReduceOp::sum) continue;
      for (const i64 n : sizes_for(dtype)) {
        ++salt;
        const Tensor tensor = inputs_of(rank, n, dtype, salt);
        group->all_reduce(rank.stream(), tensor, op, "reduce").wait(rank.stream());
        expect_values(
            tensor, [&](i64 i) { return reduced(*group, i, op, salt, dtype); }, "all_reduce");
      }
    }
  }
  require(group->counters()[CollectiveKind::all_reduce].calls == static_cast<i64>(salt) - 1,
          "counted {} calls of {}",
          group->counters()[CollectiveKind::all_reduce].calls,
          salt - 1);
}

void check_all_gather(TestRank& rank) {
  const auto group = make_world_group(rank);
  for (const DType dtype : kTypes) {
    for (const i64 n : sizes_for(dtype)) {
      const u64 salt = static_cast<u64>(n);
      const Tensor input = inputs_of(rank, n, dtype, salt);
      const Tensor output = poisoned(rank, n * group->size(), dtype);
      group->all_gather(rank.stream(), input, output, "gather").wait(rank.stream());
      const auto expected = [&](i64 i) {
        const i64 member = group->members()[static_cast<std::size_t>(i / n)];
        return small_value(member, i % n, salt, dtype);
      };
      expect_values(output, expected, "all_gather");
      // In place: the input is this member's part of the output.
      const Tensor whole = poisoned(rank, n * group->size(), dtype);
      const Tensor part = whole.slice(0, group->index() * n, n);
      std::vector<std::byte> bytes(static_cast<std::size_t>(input.bytes()));
      rank.device.read(input, bytes.data());
      rank.device.write(part, bytes.data());
      group->all_gather(rank.stream(), part, whole, "gather in place").wait(rank.stream());
      expect_values(whole, expected, "all_gather in place");
    }
  }
}

void check_reduce_scatter(TestRank& rank) {
  const auto group = make_world_group(rank);
  for (const DType dtype : kTypes) {
    if (dtype == DType::boolean) continue;
    for (const i64 n : sizes_for(dtype)) {
      const u64 salt = static_cast<u64>(n) + 77;
      const Tensor input = inputs_of(rank, n * group->size(), dtype, salt);
      const Tensor output = poisoned(rank, n, dtype);
      group->reduce_scatter(rank.stream(), input, output, "scatter").wait(rank.stream());
      const auto expected = [&](i64 i) {
        return reduced(*group, group->index() * n + i, ReduceOp::sum, salt, dtype);
      };
      expect_values(output, expected, "reduce_scatter");
      const Tensor part = input.slice(0, group->index() * n, n);
      group->reduce_scatter(rank.stream(), input, part, "scatter in place").wait(rank.stream());
      expect_values(part, expected, "reduce_scatter in place");
    }
  }
}

void check_broadcast(TestRank& rank) {
  const auto group = make_world_group(rank);
  for (int root = 0; root < group->size(); ++root) {
    for (const DType dtype : kTypes) {
      for (const i64 n : sizes_for(dtype)) {
        const Tensor tensor = inputs_of(rank, n, dtype, 5);
        group->broadcast(rank.stream(), tensor, root, "spread").wait(rank.stream());
        const i64 source = group->members()[static_cast<std::size_t>(root)];
        expect_values(
            tensor, [&](i64 i) { return small_value(source, i, 5, dtype); }, "broadcast");
      }
    }
  }
}

void check_exchange(TestRank& rank) {
  const auto group = make_world_group(rank);
  const int p = group->size(), me = group->index();
  // Everyone sends to everyone, itself included, sizes that depend on the pair; some are empty.
  const auto size_of = [](int from, int to) { return i64{from} * 977 * (to + 1) + to % 2; };
  for (int round = 0; round < 3; ++round) {
    std::vector<ProcessGroup::Part> sends, receives;
    for (int peer = 0; peer < p; ++peer) {
      const u64 salt = static_cast<u64>(peer) * 10 + static_cast<u64>(round);
      sends.push_back({peer, inputs_of(rank, size_of(me, peer), DType::fp32, salt)});
      receives.push_back({peer, poisoned(rank, size_of(peer, me), DType::fp32)});
    }
    Work work = round % 2 == 0 ? group->exchange(rank.stream(), sends, receives, "swap")
                               : group->all_to_all(rank.stream(), sends, receives, "swap all");
    work.wait(rank.stream());
    for (const auto& part : receives) {
      const u64 salt = static_cast<u64>(me) * 10 + static_cast<u64>(round);
      expect_values(
          part.tensor,
          [&](i64 i) { return small_value(part.peer, i, salt, DType::fp32); },
          "exchange");
    }
  }
  // A ring: only neighbours meet, and a pair's messages keep their order.
  std::vector<Work> works;
  std::vector<Tensor> got;
  const int next = (me + 1) % p, last = (me + p - 1) % p;
  for (int k = 0; k < 20; ++k) {
    got.push_back(poisoned(rank, 1500, DType::i32));
    works.push_back(group->exchange(rank.stream(),
                                    {{next, inputs_of(rank, 1500, DType::i32, 900 + k)}},
                                    {{last, got.back()}},
                                    "ring"));
  }
  for (Work& work : works) work.wait(rank.stream());
  for (int k = 0; k < 20; ++k) {
    expect_values(
        got[static_cast<std::size_t>(k)],
        [&](i64 i) { return small_value(last, i, 900 + static_cast<u64>(k), DType::i32); },
        "ring");
  }
}

void check_rounds_once(TestRank& rank) {
  const auto group = make_world_group(rank);
  const int p = group->size();
  for (const auto& [dtype, bits] : {std::pair{DType::bf16, 8}, {DType::fp16, 11}}) {
    // It is too large for a single 1 to change it; the members take turns to have it.
    const double large = std::ldexp(1.0, bits);
    const auto term = [&](i64 member, i64 i) { return member == i % p ? large : 1.0; };
    const double exact = large + p - 1;
    const double expected = 2 * std::nearbyint(exact / 2);  // ties to even
    for (const i64 n : {i64{3}, i64{1025}, i64{20001}}) {
      const auto mine = [&](i64 elements) {
        return filled(rank.device, elements, dtype, [&](i64 i) { return term(group->index(), i); });
      };
      const auto rounded = [&](i64) { return expected; };
      const Tensor all = mine(n);
      group->all_reduce(rank.stream(), all, ReduceOp::sum, "rounds").wait(rank.stream());
      expect_values(all, rounded, "all_reduce rounded once");
      const Tensor parts = mine(n * p), part = poisoned(rank, n, dtype);
      group->reduce_scatter(rank.stream(), parts, part, "rounds").wait(rank.stream());
      expect_values(part, rounded, "reduce_scatter rounded once");
    }
  }
}

void check_same_bits(TestRank& rank) {
  const auto group = make_world_group(rank);
  const int p = group->size();
  for (const i64 n : {i64{100}, i64{1024}, i64{30011}}) {
    std::vector<float> first(static_cast<std::size_t>(n));
    for (int run = 0; run < 3; ++run) {
      const Tensor tensor = filled(rank.device, n, DType::fp32, [&](i64 i) {
        return random_value(rank.rank, i, static_cast<u64>(n));
      });
      group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "bits").wait(rank.stream());
      if (run == 0) rank.device.read(tensor, first.data());
      const Tensor all = poisoned(rank, n * p, DType::fp32);
      group->all_gather(rank.stream(), tensor, all, "bits of all").wait(rank.stream());
      expect_values(
          all,
          [&](i64 i) { return first[static_cast<std::size_t>(i % n)]; },
          "bits of other members, or of another run");
    }
    for (i64 i = 0; i < n; ++i) {
      double sum = 0;
      for (const i64 member : group->members()) {
        sum += random_value(member, i, static_cast<u64>(n));
      }
      const double difference = first[static_cast<std::size_t>(i)] - sum;
      require(std::abs(difference) <= p * 1e-6, "element {} is off by {}", i, difference);
    }
  }
}

void check_waits_for_one(TestRank& rank) {
  const auto group = make_world_group(rank);
  if (rank.rank > 1) return;
  const int peer = 1 - static_cast<int>(rank.rank);
  for (const i64 n : {i64{10}, i64{50000}}) {
    const std::string taken = fmt::format("taken {}", n);
    const Tensor mine = inputs_of(rank, n, DType::fp32, 1),
                 more = inputs_of(rank, n, DType::fp32, 2);
    const auto check = [&](const Tensor& tensor, u64 salt) {
      expect_values(
          tensor, [&](i64 i) { return small_value(peer, i, salt, DType::fp32); }, "received");
    };
    if (rank.rank == 0) {
      const Tensor got = poisoned(rank, n, DType::fp32), last = poisoned(rank, n, DType::fp32);
      Work sent = group->exchange(rank.stream(), {{peer, mine}}, {}, "sent before");
      Work both = group->exchange(rank.stream(), {{peer, more}}, {{peer, got}}, "both");
      Work later = group->exchange(rank.stream(), {}, {{peer, last}}, "received later");
      both.wait_received(rank.stream());
      check(got, 1);
      require(both.pending(), "what \"both\" sends is forgotten");
      later.wait(rank.stream());
      check(last, 2);
      rank.reach(taken);
      both.wait(rank.stream());
      sent.wait(rank.stream());
    } else {
      const Tensor first = poisoned(rank, n, DType::fp32), second = poisoned(rank, n, DType::fp32);
      Work out = group->exchange(rank.stream(), {{peer, mine}}, {}, "both");
      Work last = group->exchange(rank.stream(), {{peer, more}}, {}, "received later");
      for (int lane = 0; lane < kCommLanes; ++lane) {
        rank.device.synchronize(rank.device.comm_stream(static_cast<CommLane>(lane)));
      }
      rank.await(taken, {0});
      group->exchange(rank.stream(), {}, {{peer, first}}, "sent before").wait(rank.stream());
      group->exchange(rank.stream(), {}, {{peer, second}}, "both").wait(rank.stream());
      check(first, 1);
      check(second, 2);
    }
    rank.device.synchronize(rank.stream());  // also for what was dropped
  }
}

void check_dropped_work(TestRank& rank) {
  const auto group = make_world_group(rank);
  for (const i64 n : {i64{10}, i64{5000}}) {
    for (u64 salt = 1; salt <= 8; ++salt) {
      const Tensor all = poisoned(rank, n * group->size(), DType::fp32);
      const Tensor sum = inputs_of(rank, n, DType::fp32, salt);
      {
        const Tensor input = inputs_of(rank, n, DType::fp32, salt);
        Work gather = group->all_gather(rank.stream(), input, all, "dropped");
        gather = group->all_reduce(rank.stream(), sum, ReduceOp::sum, "assigned over");
      }
      // Memory of the dropped input may come again.
      const Tensor again = poisoned(rank, n, DType::fp32);
      expect_values(
          all,
          [&](i64 i) {
            const i64 member = group->members()[static_cast<std::size_t>(i / n)];
            return small_value(member, i % n, salt, DType::fp32);
          },
          "dropped all_gather");
      expect_values(
          sum,
          [&](i64 i) { return reduced(*group, i, ReduceOp::sum, salt, DType::fp32); },
          "dropped all_reduce");
    }
  }
}

namespace {

// One collective under way, with the way to check its result.
struct Started {
  Work work;
  std::function<void()> check;
};

Started start_random(TestRank& rank, ProcessGroup& group, std::mt19937_64& random, u64 salt) {
  const i64 n = static_cast<i64>(random() % 3 == 0 ? random() % 20000 : random() % 600) + 1;
  const DType dtype = random() % 2 == 0 ? DType::fp32 : DType::i64;
  const auto kind = random() % 4;
  const Tensor input = inputs_of(rank, kind == 2 ? n * group.size() : n, dtype, salt);
  if (kind == 0) {
    Work work = group.all_reduce(rank.stream(), input, ReduceOp::sum, "mixed reduce");
    return {std::move(work), [&group, input, salt, dtype] {
              expect_values(
                  input,
                  [&](i64 i) { return reduced(group, i, ReduceOp::sum, salt, dtype); },
                  "mixed all_reduce");
            }};
  }
  if (kind == 1) {
    const Tensor output = poisoned(rank, n * group.size(), dtype);
    Work work = group.all_gather(rank.stream(), input, output, "mixed gather");
    return {std::move(work), [&group, output, n, salt, dtype] {
              expect_values(
                  output,
                  [&](i64 i) {
                    const i64 member = group.members()[static_cast<std::size_t>(i / n)];
                    return small_value(member, i % n, salt, dtype);
                  },
                  "mixed all_gather");
            }};
  }
  if (kind == 2) {
    const Tensor output = poisoned(rank, n, dtype);
    Work work = group.reduce_scatter(rank.stream(), input, output, "mixed scatter");
    return {std::move(work), [&group, output, n, salt, dtype] {
              expect_values(
                  output,
                  [&](i64 i) {
                    return reduced(group, group.index() * n + i, ReduceOp::sum, salt, dtype);
                  },
                  "mixed reduce_scatter");
            }};
  }
  const int next = (group.index() + 1) % group.size();
  const int last = (group.index() + group.size() - 1) % group.size();
  const Tensor output = poisoned(rank, n, dtype);
  Work work = group.exchange(rank.stream(), {{next, input}}, {{last, output}}, "mixed ring");
  const i64 source = group.members()[static_cast<std::size_t>(last)];
  return {std::move(work), [output, source, salt, dtype] {
            expect_values(
                output, [&](i64 i) { return small_value(source, i, salt, dtype); }, "mixed ring");
          }};
}

}  // namespace

void check_random_sequences(TestRank& rank, u64 seed) {
  std::vector<i64> all, some;  // overlapping
  for (i64 r = 0; r < rank.world; ++r) all.push_back(r);
  // In reverse order, without the last rank where there are more than two.
  for (i64 r = std::max<i64>(rank.world - 1, 2); r-- > 0;) some.push_back(r);
  check_random_sequences(rank, seed, {all, some});
}

void check_random_sequences(TestRank& rank,
                            u64 seed,
                            const std::vector<std::vector<i64>>& members) {
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (const std::vector<i64>& list : members) {
    const bool member = std::count(list.begin(), list.end(), rank.rank) > 0;
    const int id = static_cast<int>(groups.size());
    groups.push_back(member ? make_group(rank, "random", list, id) : nullptr);
  }
  std::mt19937_64 shared(seed), own(seed * 1000 + static_cast<u64>(rank.rank));
  std::vector<Started> started;
  const auto wait_for_one = [&] {
    const std::size_t which = own() % started.size();
    started[which].work.wait(rank.stream());
    started[which].check();
    started.erase(started.begin() + static_cast<std::ptrdiff_t>(which));
  };
  for (u64 step = 0; step < 150; ++step) {
    const auto& group = groups[shared() % groups.size()];
    std::mt19937_64 choices(shared());
    if (group != nullptr) started.push_back(start_random(rank, *group, choices, seed + step));
    while (!started.empty() && own() % 3 == 0) wait_for_one();
  }
  while (!started.empty()) wait_for_one();
}

void check_many_under_way(TestRank& rank) {
  const auto group = make_world_group(rank);
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (u64 k = 0; k < 100; ++k) {
    tensors.push_back(inputs_of(rank, k % 2 == 0 ? 10 : 4000, DType::fp32, k));
    works.push_back(group->all_reduce(rank.stream(), tensors.back(), ReduceOp::sum, "bucket"));
  }
  for (std::size_t k = works.size(); k-- > 0;) works[k].wait(rank.stream());
  for (u64 k = 0; k < 100; ++k) {
    expect_values(
        tensors[k],
        [&](i64 i) { return reduced(*group, i, ReduceOp::sum, k, DType::fp32); },
        "many under way");
  }
}

void check_graph_replay(TestRank& rank) {
  const auto group = make_world_group(rank);
  Device& device = rank.device;
  const Tensor tensor = inputs_of(rank, 3000, DType::fp32, 0);
  device.begin_capture(device.stream());
  Work work = group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "recorded");
  work.wait(device.stream());
  const auto graph = device.end_capture(device.stream());
  require(group->counters()[CollectiveKind::all_reduce].calls == 0, "recording counted as a call");
  for (u64 salt = 1; salt <= 4; ++salt) {
    const Tensor fresh = inputs_of(rank, 3000, DType::fp32, salt);
    std::vector<float> values(3000);
    device.read(fresh, values.data());
    device.write(tensor, values.data());
    device.replay(*graph, device.stream());
    expect_values(
        tensor,
        [&](i64 i) { return reduced(*group, i, ReduceOp::sum, salt, DType::fp32); },
        "replayed");
  }
  const i64 calls = group->counters()[CollectiveKind::all_reduce].calls;
  require(calls == 4, "4 replays counted as {} calls", calls);
}

void check_everything(TestRank& rank) {
  check_all_reduce(rank);
  check_all_gather(rank);
  check_reduce_scatter(rank);
  check_broadcast(rank);
  check_exchange(rank);
  check_same_bits(rank);
  check_rounds_once(rank);
  for (u64 seed = 1; seed <= 3; ++seed) check_random_sequences(rank, seed);
  check_many_under_way(rank);
  check_waits_for_one(rank);
  check_dropped_work(rank);
}

}  // namespace tessera::testing
