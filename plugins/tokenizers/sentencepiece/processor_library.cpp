#include <sentencepiece_processor.h>

#include "library_log.hpp"
#include "processor.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

std::optional<i32> id_or_none(int id) { return id >= 0 ? std::optional<i32>(id) : std::nullopt; }

}  // namespace

struct Processor::State {
  sentencepiece::SentencePieceProcessor library;
};

Processor::Processor(const ModelFile& file) : state_(std::make_unique<State>()) {
  silence_library();
  std::string why;
  try {
    const auto status = state_->library.LoadFromSerializedProto(file.bytes);
    if (!status.ok()) why = status.message();
  } catch (const std::exception& error) {  // of the tables that it makes
    why = error.what();
  }
  const i64 tokens = why.empty() ? size() : 0;
  if (why.empty() && tokens != static_cast<i64>(file.pieces.size())) {
    why = fmt::format("it has {} tokens of {}", tokens, file.pieces.size());
  }
  if (why.empty()) return;
  fail_config("tokenizer.path: {} is no model that SentencePiece takes: {}",
              written_plain(file.name),
              written_plain(why));
}

Processor::Processor(Processor&& other) noexcept = default;
Processor::~Processor() = default;

i64 Processor::size() const { return state_->library.GetPieceSize(); }

SpecialIds Processor::special_ids() const {
  SpecialIds ids{.bos = id_or_none(state_->library.bos_id()),
                 .eod = id_or_none(state_->library.eos_id()),
                 .pad = id_or_none(state_->library.pad_id()),
                 .unk = id_or_none(state_->library.unk_id())};
  if (ids.eod) ids.eos = {*ids.eod};
  return ids;
}

void Processor::encode(std::string_view text, std::vector<i32>& ids) const {
  std::vector<int> made;
  const auto status = state_->library.Encode(text, &made);
  require(status.ok(), "tokenizer sentencepiece: {}", status.message());
  ids.insert(ids.end(), made.begin(), made.end());
}

std::string Processor::decode(const std::vector<i32>& ids) const {
  std::string text;
  const auto status = state_->library.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  require(status.ok(), "tokenizer sentencepiece: {}", status.message());
  return text;
}

}  // namespace tessera
