#include "kernel/train/data/sample_reader.hpp"

#include <algorithm>
#include <exception>

#include "kernel/train/data/data_files.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

SampleReader::SampleReader(const Dataset& dataset,
                           ModelParts& parts,
                           const BatchShape& shape,
                           const Mesh& mesh)
    : dataset_(dataset),
      shape_(shape),
      data_ranks_(mesh.size(Axis::data)),
      data_rank_(mesh.coordinate(Axis::data)),
      context_ranks_(mesh.size(Axis::context)),
      context_rank_(mesh.coordinate(Axis::context)) {
  for (const ModelParts::LossInfo& loss : parts.losses()) losses_.push_back(loss.weight);
  std::vector<FieldInfo> fields = dataset.fields();
  fields_ = fields.size();
  for (const char* name : {"row_ids", "positions"}) {
    if (std::ranges::find(fields, std::string_view(name), &FieldInfo::name) != fields.end()) {
      fail_config("the dataset has a field \"{}\", which every sample has of its own", name);
    }
    fields.push_back({name, DType::i64, ""});
  }
  for (const FieldInfo& info : fields) {
    const auto term = std::ranges::find(parts.losses(), info.loss, &ModelParts::LossInfo::name);
    const int loss =
        info.loss.empty() || term == parts.losses().end() || term->weight != LossWeight::field
            ? -1
            : static_cast<int>(term - parts.losses().begin());
    inputs_.push_back({info, Slot{parts.slot(info.name)}, microbatch_bytes_, loss});
    const i64 bytes = shape.rows() * dtype_size(info.dtype);
    microbatch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (int term = 0; term < losses(); ++term) {
    if (losses_[static_cast<std::size_t>(term)] != LossWeight::field) continue;
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

std::string unmasked_loss(const ModelParts& parts) {
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    if (!loss.auxiliary && loss.weight != LossWeight::field) return loss.name;
  }
  return {};
}

int SampleReader::microbatches(i64 count) const {
  const i64 samples = data_ranks_ * shape_.micro;
  return static_cast<int>((count + samples - 1) / samples);
}

void SampleReader::read(SampleSet set,
                        i64 first,
                        i64 count,
                        int from,
                        int n,
                        std::byte* to,
                        std::span<i64> weights) const {
  for (int j = 0; j < n; ++j) {
    read_microbatch(set, first, count, from + j, to + j * microbatch_bytes_, weights);
  }
}

i64 SampleReader::position(i64 local) const {
  const i64 length = shape_.sequence / zigzag::kHalves;
  if (context_ranks_ == 1) return local;
  return zigzag::chunk(context_ranks_, context_rank_, local / length) * length + local % length;
}

// Where a file has changed, the error says so: that is why it could not be read.
void SampleReader::read_whole(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  try {
    dataset_.read(set, ordinal, out);
  } catch (const std::exception&) {
    require_unchanged(dataset_);
    throw;
  }
}

void SampleReader::read_sample(SampleSet set,
                               i64 ordinal,
                               const std::vector<std::byte*>& parts) const {
  SampleBuffers out;
  if (context_ranks_ == 1) {
    out.fields.assign(parts.begin(), parts.end());
    read_whole(set, ordinal, out);
    return;
  }
  std::vector<std::vector<std::byte>> whole;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const i64 bytes = shape_.sequence * context_ranks_ * dtype_size(inputs_[i].info.dtype);
    out.fields.push_back(whole.emplace_back(static_cast<std::size_t>(bytes)).data());
  }
  read_whole(set, ordinal, out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const i64 chunk = shape_.sequence / zigzag::kHalves * dtype_size(inputs_[i].info.dtype);
    for (i64 half = 0; half < zigzag::kHalves; ++half) {
      const i64 from = zigzag::chunk(context_ranks_, context_rank_, half) * chunk;
      std::copy_n(whole[i].data() + from, chunk, parts[i] + half * chunk);
    }
  }
}

// Ranks of a context-parallel group share a sample and have positions of their own.
void SampleReader::add_sample(std::span<i64> weights) const {
  for (std::size_t term = 0; term < losses_.size(); ++term) {
    if (losses_[term] == LossWeight::samples) weights[term] += context_rank_ == 0 ? 1 : 0;
    if (losses_[term] == LossWeight::tokens) weights[term] += shape_.sequence;
  }
}

void SampleReader::read_microbatch(SampleSet set,
                                   i64 first,
                                   i64 count,
                                   int microbatch,
                                   std::byte* to,
                                   std::span<i64> weights) const {
  const i64 begin = (microbatch * data_ranks_ + data_rank_) * shape_.micro;
  auto* rows = reinterpret_cast<i64*>(to + inputs_[fields_].offset);
  auto* positions = reinterpret_cast<i64*>(to + inputs_[fields_ + 1].offset);
  for (i64 sample = 0; sample < shape_.micro; ++sample) {
    const bool real = begin + sample < count;
    const i64 ordinal = first + (real ? begin + sample : 0);
    std::vector<std::byte*> parts;
    for (std::size_t i = 0; i < fields_; ++i) {
      const i64 bytes = shape_.sequence * dtype_size(inputs_[i].info.dtype);
      parts.push_back(to + inputs_[i].offset + sample * bytes);
    }
    read_sample(set, ordinal, parts);
    for (i64 local = 0; local < shape_.sequence; ++local) {
      *rows++ = real ? row_id(ordinal, position(local)) : padding_row(position(local));
      *positions++ = position(local);
    }
    if (real) add_sample(weights);
    for (std::size_t i = 0; i < fields_; ++i) {
      if (inputs_[i].loss < 0) continue;
      if (!real) std::fill_n(parts[i], shape_.sequence, std::byte{0});
      i64& weight = weights[static_cast<std::size_t>(inputs_[i].loss)];
      for (i64 k = 0; k < shape_.sequence; ++k) weight += std::to_integer<i64>(parts[i][k]);
    }
  }
}

}  // namespace tessera
