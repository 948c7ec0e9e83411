// Which samples a data-parallel rank gets, which part of them a context-parallel one, and what its
// inputs hold.
#include "kernel/train/data/step_inputs.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <set>

#include "tessera/context.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"
#include "tessera/later_input.hpp"
#include "tessera/random.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace step_inputs_test {

using ::testing::ElementsAre;

constexpr i64 kSequence = 3, kLongSequence = 8;

// Token = 10 · ordinal + position; the first position of odd samples is masked.
class Counted final : public Dataset {
 public:
  explicit Counted(std::string loss = "lm", i64 sequence = kSequence)
      : loss_(std::move(loss)), sequence_(sequence) {}
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens", DType::i64, ""}, {"loss_mask", DType::u8, loss_}};
  }
  i64 do_size(SampleSet) const override { return 1000; }
  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    for (i64 i = 0; i < sequence_; ++i) {
      static_cast<i64*>(out.fields[0])[i] = 10 * ordinal + i;
      static_cast<u8*>(out.fields[1])[i] = ordinal % 2 == 1 && i == 0 ? 0 : 1;
    }
  }
  std::string do_fingerprint() const override { return "counted"; }

 private:
  std::string loss_;
  i64 sequence_;
};

class Loading : public ::testing::Test {
 protected:
  struct Rank {
    Rank(HostDevice& device,
         const Dataset& dataset,
         const Layout& layout,
         i64 index,
         const BatchShape& batch)
        : device(device), dataset(dataset), batch(batch), mesh(RankGenerator(layout), index) {
      parts.loss({.name = "lm"});
      parts.slot("tokens");
      cx.device = &device;
      cx.stream = &device.stream();
      cx.pool = &device.pool();
    }
    /// Uploads the first microbatches; this rank's weights of the loss terms, then the flag.
    std::vector<i64> prepare(SampleSet set, i64 first, i64 count, int microbatches, i64 flag = 0) {
      inputs = std::make_unique<StepInputs>(dataset, parts, batch, mesh, device, microbatches);
      inputs->upload(cx, {set, first, count}, nullptr, flag);
      return values(inputs->weights());
    }
    std::vector<i64> values(const Tensor& tensor) const {
      std::vector<i64> values(static_cast<std::size_t>(tensor.elements()));
      if (tensor.dtype() == DType::i64) {
        device.read(tensor, values.data());
      } else {
        std::vector<u8> bytes(values.size());
        device.read(tensor, bytes.data());
        values.assign(bytes.begin(), bytes.end());
      }
      return values;
    }
    std::vector<i64> input(int microbatch, std::string_view name) {
      Bundle bundle = parts.bundle();
      inputs->load(microbatch, bundle);
      return values(bundle[Slot{parts.slot(name)}]);
    }
    HostDevice& device;
    const Dataset& dataset;
    BatchShape batch;
    Mesh mesh;
    ModelParts parts{mesh};
    std::unique_ptr<StepInputs> inputs;
    Context cx;
  };
  Rank rank(i64 data, i64 index, i64 micro) {
    return {device_, dataset_, {.world = data}, index, {micro, kSequence}};
  }

  HostDevice device_{"test", {}, {}};
  Counted dataset_;
};

TEST_F(Loading, MicrobatchesAreDealtRoundByRound) {
  // 12 samples from ordinal 24 on, 3 ranks, 2 samples a microbatch: ordinals 24 + (j·3 + d)·2 + k.
  for (i64 d = 0; d < 3; ++d) {
    Rank here = rank(3, d, 2);
    here.prepare(SampleSet::train, 24, 12, 2);
    for (int j = 0; j < 2; ++j) {
      const i64 first = 24 + (j * 3 + d) * 2;
      EXPECT_THAT(here.input(j, "tokens"),
                  ElementsAre(10 * first,
                              10 * first + 1,
                              10 * first + 2,
                              10 * first + 10,
                              10 * first + 11,
                              10 * first + 12));
      EXPECT_THAT(here.input(j, "row_ids"),
                  ElementsAre(row_id(first, 0),
                              row_id(first, 1),
                              row_id(first, 2),
                              row_id(first + 1, 0),
                              row_id(first + 1, 1),
                              row_id(first + 1, 2)));
      EXPECT_THAT(here.input(j, "positions"), ElementsAre(0, 1, 2, 0, 1, 2));
    }
  }
}

TEST_F(Loading, EveryLayoutReadsTheSameSamples) {
  for (const auto& [data, micro] : {std::pair<i64, i64>{1, 1}, {1, 8}, {2, 2}, {4, 2}, {8, 1}}) {
    std::multiset<i64> seen;
    i64 weight = 0;
    for (i64 d = 0; d < data; ++d) {
      Rank here = rank(data, d, micro);
      const int microbatches = static_cast<int>(8 / (data * micro));
      weight += here.prepare(SampleSet::train, 16, 8, microbatches).at(0);
      for (int j = 0; j < microbatches; ++j) {
        for (const i64 token : here.input(j, "tokens")) seen.insert(token);
      }
    }
    std::multiset<i64> expected;
    for (i64 ordinal = 16; ordinal < 24; ++ordinal) {
      for (i64 i = 0; i < kSequence; ++i) expected.insert(10 * ordinal + i);
    }
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(weight, 4 * 3 + 4 * 2) << "odd samples have one position masked";
  }
}

TEST_F(Loading, SamplesBeyondTheCountDoNotWeigh) {
  // 5 validation samples on 2 ranks by 2: the second round is partly, the last wholly beyond.
  Rank first = rank(2, 0, 2), second = rank(2, 1, 2);
  EXPECT_THAT(first.prepare(SampleSet::validation, 0, 5, 2), ElementsAre(3 + 2 + 3, 0));
  EXPECT_EQ(first.inputs->reader().microbatches(5), 2);
  EXPECT_EQ(first.inputs->reader().microbatches(4), 1);
  EXPECT_THAT(second.prepare(SampleSet::validation, 0, 5, 2), ElementsAre(3 + 2, 0));
  EXPECT_THAT(first.input(1, "loss_mask"), ElementsAre(1, 1, 1, 0, 0, 0));
  EXPECT_THAT(second.input(1, "loss_mask"), ElementsAre(0, 0, 0, 0, 0, 0));
}

// Two chunks a rank, the second from the other end: 8 positions on 2 ranks are 0 1 | 6 7 and 2 3 |
// 4 5; the data rank, not the rank, says which samples.
TEST_F(Loading, ContextRanksHoldTwoChunksOfEverySample) {
  const Counted dataset("lm", kLongSequence);
  const std::vector<std::vector<i64>> positions = {{0, 1, 6, 7}, {2, 3, 4, 5}};
  for (i64 index = 0; index < 4; ++index) {
    Rank here(device_, dataset, {.world = 4, .context = 2}, index, {2, kLongSequence / 2});
    const std::vector<i64> weights = here.prepare(SampleSet::train, 24, 4, 1);
    const i64 first = 24 + index / 2 * 2;
    std::vector<i64> tokens, rows, places;
    for (const i64 sample : {first, first + 1}) {
      for (const i64 position : positions[static_cast<std::size_t>(index % 2)]) {
        tokens.push_back(10 * sample + position);
        rows.push_back(row_id(sample, position));
        places.push_back(position);
      }
    }
    EXPECT_EQ(here.input(0, "tokens"), tokens) << "rank " << index;
    EXPECT_EQ(here.input(0, "row_ids"), rows) << "rank " << index;
    EXPECT_EQ(here.input(0, "positions"), places) << "rank " << index;
    // Position 0 of odd samples is masked; context rank 0 holds it.
    EXPECT_THAT(weights, ElementsAre(index % 2 == 0 ? 7 : 8, 0)) << "rank " << index;
    EXPECT_THAT(here.input(0, "loss_mask"), ElementsAre(1, 1, 1, 1, index % 2, 1, 1, 1));
  }
}

// Samples count once among the ranks that share them, tokens where they are; those beyond the
// count not at all.
TEST_F(Loading, TermsAreWeightedBySamplesAndTokens) {
  const Counted dataset("lm", kLongSequence);
  std::vector<i64> sum(4, 0);
  for (i64 index = 0; index < 4; ++index) {
    Rank here(device_, dataset, {.world = 4, .context = 2}, index, {2, kLongSequence / 2});
    here.parts.loss({.name = "balance", .weight = LossWeight::samples});
    here.parts.loss({.name = "z", .weight = LossWeight::tokens});
    const std::vector<i64> weights = here.prepare(SampleSet::validation, 0, 3, 1);
    EXPECT_EQ(weights[2], index < 2 ? 8 : 4) << "rank " << index;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weights[i];
  }
  EXPECT_THAT(sum, ElementsAre(3 * 8 - 1, 3, 3 * 8, 0));
}

TEST_F(Loading, ContextRanksMaskSamplesBeyondTheCount) {
  const Counted dataset("lm", kLongSequence);
  Rank here(device_, dataset, {.world = 2, .context = 2}, 1, {2, kLongSequence / 2});
  EXPECT_THAT(here.prepare(SampleSet::validation, 0, 1, 1), ElementsAre(4, 0));
  EXPECT_THAT(here.input(0, "loss_mask"), ElementsAre(1, 1, 1, 1, 0, 0, 0, 0));
}

// Read ahead or not, and whatever was read ahead: what was asked for arrives, at fixed addresses.
TEST_F(Loading, TheNextStepIsReadWhileThisOneRuns) {
  Rank here = rank(1, 0, 2);
  StepInputs inputs(dataset_, here.parts, here.batch, here.mesh, device_, 2);
  const auto tokens = [&] {
    Bundle bundle = here.parts.bundle();
    inputs.load(1, bundle);
    return bundle[Slot{here.parts.slot("tokens")}];
  };
  const void* address = nullptr;
  const auto request = [](i64 step) { return StepInputs::Request{SampleSet::train, 4 * step, 4}; };
  for (const i64 step : {0, 1, 2, 7, 8, 3}) {
    const StepInputs::Request next = request(step + 1);
    inputs.upload(here.cx, request(step), &next, step);
    EXPECT_EQ(here.values(tokens()).front(), 10 * (4 * step + 2)) << step;
    EXPECT_THAT(here.values(inputs.weights()), ElementsAre(2 * 3 + 2 * 2, step));
    if (step == 0) address = tokens().arg().address;
    EXPECT_EQ(tokens().arg().address, address);
  }
}

// Field "first" of a sample whose documents begin at positions 0, 3 and 4.
class Documents final : public Dataset {
 public:
  explicit Documents(DType first = DType::i32) : first_(first) {}
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens", DType::i64, ""}, {"loss_mask", DType::u8, "lm"}, {"first", first_, ""}};
  }
  i64 do_size(SampleSet) const override { return 1000; }
  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    for (i64 i = 0; i < kLongSequence; ++i) {
      static_cast<i64*>(out.fields[0])[i] = 10 * ordinal + i;
      static_cast<u8*>(out.fields[1])[i] = i == 5 ? 0 : 1;
      static_cast<i32*>(out.fields[2])[i] = i < 3 ? 0 : i < 4 ? 3 : 4;
    }
  }
  std::string do_fingerprint() const override { return "documents"; }

 private:
  DType first_;
};

// What a field has later in the sample comes from the whole of it, whichever rank holds that part.
TEST_F(Loading, LaterInputsAreCutFromWholeSamples) {
  const Counted dataset("lm", kLongSequence);
  const std::vector<std::vector<i64>> positions = {{0, 1, 6, 7}, {2, 3, 4, 5}};
  i64 weight = 0;
  for (i64 index = 0; index < 2; ++index) {
    Rank here(device_, dataset, {.world = 2, .context = 2}, index, {2, kLongSequence / 2});
    here.parts.slot(later_input("tokens", 2));
    here.parts.loss({.name = "mtp.2", .auxiliary = true, .mask = "loss_mask+2"});
    const std::vector<i64> weights = here.prepare(SampleSet::train, 24, 2, 1);
    std::vector<i64> tokens, mask;
    for (const i64 sample : {24, 25}) {
      for (const i64 position : positions[static_cast<std::size_t>(index)]) {
        const bool there = position + 2 < kLongSequence;
        tokens.push_back(there ? 10 * sample + position + 2 : 0);
        mask.push_back(there ? 1 : 0);
      }
    }
    EXPECT_EQ(here.input(0, "tokens+2"), tokens) << "rank " << index;
    EXPECT_EQ(here.input(0, "loss_mask+2"), mask) << "rank " << index;
    weight += weights[1];
  }
  EXPECT_EQ(weight, 2 * (kLongSequence - 2));
}

TEST_F(Loading, NothingIsLaterThanTheEndOfItsDocument) {
  const Documents dataset;
  for (const i64 context : {1, 2}) {
    std::vector<i64> tokens(kLongSequence), mask(kLongSequence);
    i64 weight = 0;
    for (i64 index = 0; index < context; ++index) {
      Rank here(device_,
                dataset,
                {.world = context, .context = context},
                index,
                {1, kLongSequence / context});
      here.parts.slot("tokens+1");
      here.parts.loss({.name = "mtp.1", .auxiliary = true, .mask = "loss_mask+1"});
      weight += here.prepare(SampleSet::train, 3, 1, 1).at(1);
      const std::vector<i64> at = here.input(0, "positions"), later = here.input(0, "tokens+1"),
                             counts = here.input(0, "loss_mask+1");
      for (std::size_t i = 0; i < at.size(); ++i) {
        tokens[static_cast<std::size_t>(at[i])] = later[i];
        mask[static_cast<std::size_t>(at[i])] = counts[i];
      }
    }
    EXPECT_THAT(tokens, ElementsAre(31, 32, 0, 0, 35, 36, 37, 0));
    EXPECT_THAT(mask, ElementsAre(1, 1, 0, 0, 0, 1, 1, 0)) << "position 5 does not count";
    EXPECT_EQ(weight, 4);
  }
}

TEST_F(Loading, LaterInputsOfSamplesBeyondTheCountDoNotWeigh) {
  const Counted dataset("lm", kLongSequence);
  Rank here(device_, dataset, {}, 0, {2, kLongSequence});
  here.parts.loss({.name = "mtp.3", .auxiliary = true, .mask = "loss_mask+3"});
  EXPECT_THAT(here.prepare(SampleSet::validation, 0, 1, 1),
              ElementsAre(kLongSequence, kLongSequence - 3, 0));
}

TEST_F(Loading, LaterInputsNeedTheirField) {
  const auto error = [&](std::string_view slot, const Dataset& dataset) {
    return testing::error_of<ConfigError>([&] {
      Rank here(device_, dataset, {}, 0, {1, kLongSequence});
      here.parts.slot(slot);
      here.prepare(SampleSet::train, 0, 1, 1);
    });
  };
  EXPECT_EQ(error("targets+1", dataset_),
            "the model reads what the data's field \"targets\" has 1 position later; the data has "
            "the fields tokens, loss_mask");
  EXPECT_EQ(error("tokens+1", Documents(DType::i64)),
            "the data's field \"first\" is i64: where a row's document begins is i32");
}

TEST(LaterInput, HasANameThatSaysWhatItIs) {
  EXPECT_EQ(later_input("tokens", 0), "tokens");
  EXPECT_EQ(later_input("tokens", 12), "tokens+12");
  const auto read = parse_later_input("a+b+12");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->field, "a+b");
  EXPECT_EQ(read->positions, 12);
  for (const char* name : {"tokens",
                           "+",
                           "tokens+",
                           "tokens+0",
                           "tokens+-1",
                           "tokens+1x",
                           "tokens+99999999999999999999"}) {
    EXPECT_FALSE(parse_later_input(name)) << name;
  }
}

// Beside the tokens: two labels of each sample, whether it counts (the even ones), and positions
// that begin again in the middle.
class Labelled final : public Dataset {
 public:
  explicit Labelled(std::vector<FieldInfo> other = {}) : other_(std::move(other)) {}
  std::vector<FieldInfo> do_fields() const override {
    if (!other_.empty()) return other_;
    return {{"tokens", DType::i64},
            {"loss_mask", DType::u8, "lm"},
            {.name = "labels", .dtype = DType::i64, .length = 2},
            {.name = "counts", .dtype = DType::u8, .loss = "order", .length = 1},
            {"positions", DType::i64}};
  }
  i64 do_size(SampleSet) const override { return 1000; }
  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    ++reads;
    for (i64 i = 0; i < kLongSequence; ++i) {
      static_cast<i64*>(out.fields[0])[i] = 10 * ordinal + i;
      static_cast<u8*>(out.fields[1])[i] = 1;
      static_cast<i64*>(out.fields[4])[i] = i % 5;
    }
    for (i64 i = 0; i < 2; ++i) static_cast<i64*>(out.fields[2])[i] = 100 * ordinal + i;
    static_cast<u8*>(out.fields[3])[0] = ordinal % 2 == 0 ? 1 : 0;
  }
  std::string do_fingerprint() const override { return "labelled"; }

  mutable std::atomic<int> reads = 0;

 private:
  std::vector<FieldInfo> other_;
};

TEST_F(Loading, FieldsOfSamplesAreWholeOnEachContextRankAndCountOnce) {
  const Labelled dataset;
  const std::vector<std::vector<i64>> positions = {{0, 1, 1, 2}, {2, 3, 4, 0}};
  i64 order = 0;
  for (i64 index = 0; index < 2; ++index) {
    Rank here(device_, dataset, {.world = 2, .context = 2}, index, {4, kLongSequence / 2});
    here.parts.slot("labels");
    here.parts.loss({.name = "order"});
    // Three of four samples: 25 does not count, and what stands for a fourth does not either.
    order += here.prepare(SampleSet::validation, 24, 3, 1).at(1);
    EXPECT_THAT(here.input(0, "labels"),
                ElementsAre(2400, 2401, 2500, 2501, 2600, 2601, 2400, 2401));
    EXPECT_THAT(here.input(0, "counts"), ElementsAre(1, 0, 1, 0));
    std::vector<i64> places;
    for (int sample = 0; sample < 4; ++sample) {
      const std::vector<i64>& own = positions[static_cast<std::size_t>(index)];
      places.insert(places.end(), own.begin(), own.end());
    }
    here.parts.slot("positions");
    here.prepare(SampleSet::validation, 24, 3, 1);
    EXPECT_EQ(here.input(0, "positions"), places) << "those of the data";
    EXPECT_EQ(here.input(0, "row_ids").at(2), row_id(24, index == 0 ? 6 : 4));
  }
  EXPECT_EQ(order, 2);
}

TEST_F(Loading, WhatNoLayerReadsIsNoInput) {
  const Labelled dataset;
  Mesh mesh(RankGenerator({}), 0);
  const auto names = [&](ModelParts& parts) {
    std::vector<std::string> found;
    const SampleReader reader(dataset, parts, {1, kLongSequence}, mesh);
    std::vector<std::byte> memory(static_cast<std::size_t>(reader.microbatch_bytes()));
    std::vector<i64> weights(static_cast<std::size_t>(reader.losses()));
    reader.read(SampleSet::train, 0, 1, 0, 1, memory.data(), weights);
    for (const SampleReader::Input& input : reader.inputs()) found.push_back(input.info.name);
    return found;
  };
  ModelParts none(mesh), some(mesh);
  EXPECT_THAT(names(none), ElementsAre("row_ids"));
  EXPECT_EQ(dataset.reads, 0) << "nothing was wanted of it";
  some.slot("labels");
  some.slot("positions");
  EXPECT_THAT(names(some), ElementsAre("labels", "positions", "row_ids"));
  EXPECT_EQ(dataset.reads, 1);
}

TEST_F(Loading, FieldsThatNoLayerCouldReadAreErrors) {
  const auto error = [&](const FieldInfo& field) {
    const Labelled dataset({field});
    return testing::error_of<ConfigError>([&] {
      Rank(device_, dataset, {}, 0, {1, kLongSequence}).prepare(SampleSet::train, 0, 1, 1);
    });
  };
  EXPECT_EQ(error({"row_ids", DType::i64}),
            "the dataset has a field \"row_ids\", which every sample has of its own");
  EXPECT_EQ(error({"x", DType::fp32}), "the data's field \"x\" is fp32: fields are i64, i32 or u8");
  EXPECT_EQ(error({"positions", DType::i32}),
            "the data's field \"positions\" is i32: a token's position is i64");
  EXPECT_EQ(error({"last", DType::i64}),
            "the data's field \"last\" is i64: the last place that a row sees is i32");
  EXPECT_EQ(error({.name = "last", .dtype = DType::i32, .length = 1}),
            "the data's field \"last\" has 1 values a sample: it has one for each token");
  EXPECT_EQ(error({.name = "x", .length = -1}), "the data's field \"x\" has -1 values a sample");
}

TEST_F(Loading, EveryLossNeedsAMask) {
  const Counted other("sentence_order");
  EXPECT_THAT(
      [&] {
        Rank(device_, other, {}, 0, {1, kSequence}).prepare(SampleSet::train, 0, 1, 1);
      },
      ::testing::ThrowsMessage<ConfigError>(
          "the dataset has no mask for the loss \"lm\", so it cannot be weighted"));
}

}  // namespace step_inputs_test
}  // namespace tessera
