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
    : SampleReader(dataset, parts, shape, mesh, dataset.fields()) {}

SampleReader::SampleReader(const Dataset& dataset,
                           ModelParts& parts,
                           const BatchShape& shape,
                           const Mesh& mesh,
                           std::vector<FieldInfo> fields)
    : dataset_(dataset),
      shape_(shape),
      data_ranks_(mesh.size(Axis::data)),
      data_rank_(mesh.coordinate(Axis::data)),
      context_ranks_(mesh.size(Axis::context)),
      context_rank_(mesh.coordinate(Axis::context)),
      fields_(fields.size()),
      later_(parts, fields) {
  for (const LaterFields::Field& later : later_.all()) fields.push_back(later.info);
  for (const char* name : {"row_ids", "positions"}) {
    if (std::ranges::find(fields, std::string_view(name), &FieldInfo::name) != fields.end()) {
      fail_config("the dataset has a field \"{}\", which every sample has of its own", name);
    }
    fields.push_back({name, DType::i64, ""});
  }
  for (const FieldInfo& info : fields) {
    inputs_.push_back({info, Slot{parts.slot(info.name)}, microbatch_bytes_});
    const i64 bytes = shape.rows() * dtype_size(info.dtype);
    microbatch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  find_masks(parts);
}

void SampleReader::find_masks(const ModelParts& parts) {
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    losses_.push_back(loss.weight);
    masks_.push_back(-1);
    if (loss.weight != LossWeight::field) continue;
    const auto weights = [&](const Input& input) {
      return loss.mask.empty() ? input.info.loss == loss.name : input.info.name == loss.mask;
    };
    const auto mask = std::ranges::find_if(inputs_, weights);
    if (mask == inputs_.end()) {
      fail_config("{}{}the dataset has no mask for the loss \"{}\", so it cannot be weighted",
                  loss.component,
                  loss.component.empty() ? "" : ": ",
                  loss.name);
    }
    if (mask->info.dtype != DType::u8) {
      fail_config("the mask \"{}\" of the loss \"{}\" is {}, and u8 was expected",
                  mask->info.name,
                  loss.name,
                  dtype_name(mask->info.dtype));
    }
    masks_.back() = static_cast<int>(mask - inputs_.begin());
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
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> whole = parts;
  if (context_ranks_ > 1) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const i64 bytes = shape_.sequence * context_ranks_ * dtype_size(inputs_[i].info.dtype);
      whole[i] = memory.emplace_back(static_cast<std::size_t>(bytes)).data();
    }
  }
  SampleBuffers out;
  out.fields.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(fields_));
  read_whole(set, ordinal, out);
  later_.fill(whole, shape_.sequence * context_ranks_);
  if (context_ranks_ == 1) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const i64 chunk = shape_.sequence / zigzag::kHalves * dtype_size(inputs_[i].info.dtype);
    for (i64 half = 0; half < zigzag::kHalves; ++half) {
      const i64 from = zigzag::chunk(context_ranks_, context_rank_, half) * chunk;
      std::copy_n(whole[i] + from, chunk, parts[i] + half * chunk);
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
  const std::size_t of_data = inputs_.size() - 2;
  auto* rows = reinterpret_cast<i64*>(to + inputs_[of_data].offset);
  auto* positions = reinterpret_cast<i64*>(to + inputs_[of_data + 1].offset);
  for (i64 sample = 0; sample < shape_.micro; ++sample) {
    const bool real = begin + sample < count;
    const i64 ordinal = first + (real ? begin + sample : 0);
    std::vector<std::byte*> parts;
    for (std::size_t i = 0; i < of_data; ++i) {
      const i64 bytes = shape_.sequence * dtype_size(inputs_[i].info.dtype);
      parts.push_back(to + inputs_[i].offset + sample * bytes);
    }
    read_sample(set, ordinal, parts);
    for (i64 local = 0; local < shape_.sequence; ++local) {
      *rows++ = real ? row_id(ordinal, position(local)) : padding_row(position(local));
      *positions++ = position(local);
    }
    if (real) add_sample(weights);
    for (std::size_t term = 0; term < masks_.size(); ++term) {
      if (masks_[term] < 0) continue;
      std::byte* mask = parts[static_cast<std::size_t>(masks_[term])];
      if (!real) std::fill_n(mask, shape_.sequence, std::byte{0});
      for (i64 k = 0; k < shape_.sequence; ++k) weights[term] += std::to_integer<i64>(mask[k]);
    }
  }
}

}  // namespace tessera
