#include "tests/unit/checkpoint/world_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tessera/error.hpp"

namespace tessera {

namespace {

double value_of(const std::string& name, i64 element, i64 salt) {
  return static_cast<double>(name.size() * 1000 + static_cast<std::size_t>(salt) * 100'000) +
         static_cast<double>(element);
}

}  // namespace

CheckpointRank::CheckpointRank(const Layout& layout,
                               i64 rank,
                               Store& store,
                               const std::string& folder)
    : mesh_(RankGenerator(layout), rank),
      device_(std::make_unique<HostDevice>("host", DeviceArguments{}, std::vector<Kernel>{})) {
  arguments.folder = folder;
  arguments.keep = 0;
  arguments.run = "run";
  arguments.mesh = &mesh_;
  arguments.device = device_.get();
  arguments.store = layout.world > 1 ? &store : nullptr;
  arguments.limits = std::chrono::seconds(20);
  add("vocabulary", {13, 4}, {{0, Axis::tensor, {}, 4}}, DType::fp32);
  add("qkv", {12, 6}, {{0, Axis::tensor, {4, 4, 4}}}, DType::fp32);
  add("projection", {6, 8}, {{1, Axis::tensor}}, DType::fp32);
  add("norm", {5}, {}, DType::fp32);
  add("scalar", {}, {}, DType::fp32);
  add("qkv/moment", {12, 6}, {{0, Axis::tensor, {4, 4, 4}}}, DType::fp64);
}

void CheckpointRank::add(const std::string& name,
                         const Shape& logical,
                         const std::vector<Split>& split,
                         DType dtype) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = name;
  parameter->logical = logical;
  parameter->layout = ParameterLayout(logical, split, Placement::replicated(), mesh_);
  parameter->local = parameter->layout.storage();
  const i64 elements = parameter->local.elements();
  const Tensor tensor = Tensor::allocate(
      *device_, device_->pool(), device_->stream(), {elements}, dtype, Category::parameters);
  tensors.push_back({name, parameter.get(), {0, elements}, tensor});
  parameters_.push_back(std::move(parameter));
}

std::vector<std::byte> CheckpointRank::expected(const CheckpointTensor& tensor, i64 salt) const {
  const i64 size = dtype_size(tensor.tensor.dtype());
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.of->local.elements() * size));
  for (const ElementRun& run : tensor.of->layout.runs()) {
    for (i64 i = 0; i < run.length; ++i) {
      const double exact = value_of(tensor.name, run.logical + i, salt);
      const auto rounded = static_cast<float>(exact);
      const bool wide = tensor.tensor.dtype() == DType::fp64;
      std::byte* to = bytes.data() + (run.local + i) * (wide ? 8 : 4);
      if (wide) {
        std::memcpy(to, &exact, 8);
      } else {
        std::memcpy(to, &rounded, 4);
      }
    }
  }
  const auto begin = bytes.begin() + tensor.range.begin * size;
  return {begin, begin + tensor.range.length * size};
}

void CheckpointRank::keep_share() {
  const i64 ranks = mesh_.size(Axis::data), rank = ranks - 1 - mesh_.coordinate(Axis::data);
  for (CheckpointTensor& tensor : tensors) {
    const i64 elements = tensor.range.length, share = (elements + ranks - 1) / ranks;
    const i64 begin = std::min(rank * share, elements);
    tensor.range = {begin, std::min(share, elements - begin)};
    tensor.holders = StateHolders::this_rank;
    tensor.tensor = Tensor::allocate(*device_,
                                     device_->pool(),
                                     device_->stream(),
                                     {tensor.range.length},
                                     tensor.tensor.dtype(),
                                     Category::optimizer);
  }
}

void CheckpointRank::fill(i64 salt) {
  for (const CheckpointTensor& tensor : tensors) {
    device_->write(tensor.tensor, expected(tensor, salt).data());
  }
}

void CheckpointRank::spoil() {
  for (const CheckpointTensor& tensor : tensors) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.tensor.bytes()),
                                       std::byte{0xAB});
    device_->write(tensor.tensor, bytes.data());
  }
}

std::string CheckpointRank::wrong(i64 salt) const {
  std::string names;
  for (const CheckpointTensor& tensor : tensors) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.tensor.bytes()));
    device_->read(tensor.tensor, bytes.data());
    if (bytes != expected(tensor, salt)) names += " " + tensor.name;
  }
  return names;
}

Layout world_of(i64 tensor, i64 data) {
  Layout layout;
  layout.world = tensor * data;
  layout.tensor = tensor;
  return layout;
}

CheckpointInfo info_at(i64 step) {
  CheckpointInfo info;
  info.step = step;
  info.updates = step - 1;
  info.samples = step * 8;
  info.seed = 11;
  info.data = "text";
  info.config = "schema = 1\n";
  return info;
}

std::vector<std::string> on_ranks(const Layout& layout,
                                  const std::string& folder,
                                  const std::function<void(CheckpointRank&)>& body) {
  InProcessStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(layout.world));
  std::vector<std::thread> threads;
  for (i64 rank = 0; rank < layout.world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        CheckpointRank self(layout, rank, store, folder);
        body(self);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] =
            fmt::format("{}: {}", error.exit_code(), error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void run_ranks(const Layout& layout,
               const std::string& folder,
               const std::function<void(CheckpointRank&)>& body) {
  for (const std::string& error : on_ranks(layout, folder, body)) EXPECT_EQ(error, "");
}

void save_step(const Layout& layout, const std::string& folder, i64 step, i64 keep) {
  run_ranks(layout, folder, [&](CheckpointRank& rank) {
    rank.arguments.keep = keep;
    rank.fill(step);
    rank.checkpoints().save(info_at(step), rank.tensors);
  });
}

}  // namespace tessera
