#include "kernel/train/data/batch_loader.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/random.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

BatchLoader::BatchLoader(const Dataset& dataset,
                         ModelParts& parts,
                         const BatchShape& shape,
                         const Mesh& mesh,
                         Device& device)
    : dataset_(dataset),
      shape_(shape),
      data_ranks_(mesh.size(Axis::data)),
      data_rank_(mesh.coordinate(Axis::data)),
      context_ranks_(mesh.size(Axis::context)),
      context_rank_(mesh.coordinate(Axis::context)),
      device_(device),
      rows_{parts.slot("rows")},
      positions_{parts.slot("positions")},
      losses_(static_cast<int>(parts.losses().size())) {
  for (const FieldInfo& info : dataset.fields()) {
    const auto term = std::ranges::find(parts.losses(), info.loss, &ModelParts::LossInfo::name);
    const int loss = info.loss.empty() || term == parts.losses().end()
                         ? -1
                         : static_cast<int>(term - parts.losses().begin());
    inputs_.push_back({info, Slot{parts.slot(info.name)}, loss});
    const i64 positions = shape.sequence * context_ranks_;
    sample_.emplace_back(static_cast<std::size_t>(positions * dtype_size(info.dtype)));
  }
  for (int term = 0; term < losses_; ++term) {
    const bool masked =
        std::ranges::any_of(inputs_, [&](const Input& input) { return input.loss == term; });
    if (masked) continue;
    const ModelParts::LossInfo& loss = parts.losses()[static_cast<std::size_t>(term)];
    fail_config("{}{}the dataset has no mask for the loss \"{}\", so it cannot be weighted",
                loss.component,
                loss.component.empty() ? "" : ": ",
                loss.name);
  }
}

int BatchLoader::microbatches(i64 count) const {
  const i64 samples = data_ranks_ * shape_.micro;
  return static_cast<int>((count + samples - 1) / samples);
}

std::vector<i64> BatchLoader::prepare(SampleSet set, i64 first, i64 count, int microbatches) {
  prepared_.clear();
  std::vector<i64> weights(static_cast<std::size_t>(losses_), 0);
  for (int j = 0; j < microbatches; ++j) {
    prepared_.push_back(read(set, first, (j * data_ranks_ + data_rank_) * shape_.micro, count));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].loss < 0) continue;
      i64& weight = weights[static_cast<std::size_t>(inputs_[i].loss)];
      for (const u8 kept : prepared_.back().fields[i]) weight += kept;
    }
  }
  return weights;
}

i64 BatchLoader::position(i64 local) const {
  const i64 length = shape_.sequence / zigzag::kHalves;
  if (context_ranks_ == 1) return local;
  return zigzag::chunk(context_ranks_, context_rank_, local / length) * length + local % length;
}

void BatchLoader::read_sample(SampleSet set, i64 ordinal, const std::vector<u8*>& parts) {
  SampleBuffers out;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    u8* whole = context_ranks_ == 1 ? parts[i] : sample_[i].data();
    out.fields.push_back(whole);
  }
  dataset_.read(set, ordinal, out);
  if (context_ranks_ == 1) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const i64 chunk = shape_.sequence / zigzag::kHalves * dtype_size(inputs_[i].info.dtype);
    for (i64 half = 0; half < zigzag::kHalves; ++half) {
      const i64 from = zigzag::chunk(context_ranks_, context_rank_, half) * chunk;
      std::copy_n(sample_[i].data() + from, chunk, parts[i] + half * chunk);
    }
  }
}

BatchLoader::Buffers BatchLoader::read(SampleSet set, i64 first, i64 begin, i64 count) {
  Buffers buffers;
  for (const Input& input : inputs_) {
    buffers.fields.emplace_back(
        static_cast<std::size_t>(shape_.rows() * dtype_size(input.info.dtype)));
  }
  for (i64 sample = 0; sample < shape_.micro; ++sample) {
    const bool real = begin + sample < count;
    const i64 ordinal = first + (real ? begin + sample : 0);
    std::vector<u8*> parts;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const i64 bytes = shape_.sequence * dtype_size(inputs_[i].info.dtype);
      parts.push_back(buffers.fields[i].data() + sample * bytes);
    }
    read_sample(set, ordinal, parts);
    for (i64 local = 0; local < shape_.sequence; ++local) {
      buffers.rows.push_back(row_id(ordinal, position(local)));
      buffers.positions.push_back(position(local));
    }
    if (real) continue;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].loss >= 0) std::fill_n(parts[i], shape_.sequence, u8{0});
    }
  }
  return buffers;
}

Tensor BatchLoader::upload(Context& cx, DType dtype, const void* values) const {
  Tensor tensor = cx.empty({shape_.rows()}, dtype);
  device_.write(tensor, values);
  return tensor;
}

void BatchLoader::load(Context& cx, int microbatch, Bundle& bundle) const {
  const Buffers& buffers = prepared_.at(static_cast<std::size_t>(microbatch));
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    bundle[inputs_[i].slot] = upload(cx, inputs_[i].info.dtype, buffers.fields[i].data());
  }
  bundle[rows_] = upload(cx, DType::i64, buffers.rows.data());
  bundle[positions_] = upload(cx, DType::i64, buffers.positions.data());
}

}  // namespace tessera
