#include "kernel/data/document_line.hpp"

#include <fmt/format.h>

#include "kernel/data/text_check.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

std::string removed_line(std::string_view id,
                         std::string_view stage,
                         std::string_view reason,
                         std::string_view twin,
                         double similarity) {
  Json line;
  line.add("id", id).add("stage", stage).add("reason", reason);
  if (!twin.empty()) line.add("twin", twin).add("similarity", similarity);
  return line.text() + "\n";
}

namespace {

void require_utf8(std::string_view id, std::string_view text) {
  if (const auto bad = first_no_utf8(text)) {
    fail("{}: after the stages, byte {} of the text is no UTF-8", written_plain(id), *bad + 1);
  }
}

}  // namespace

DocumentLine::DocumentLine(const BuildConfig& config, Stages stages)
    : config_(config), stages_(stages), encoder_(config.tokenizer->encoder()) {
  if (stages_.next != nullptr)
    sketch_.resize(static_cast<std::size_t>(stages_.next->sketch_bytes()));
}

void DocumentLine::encode(std::string_view text) {
  tokens_.ids.clear();
  tokens_.lengths.clear();
  encoder_->append(text, tokens_.ids);
}

TextAmount DocumentLine::amount_of(std::string_view text) const {
  return {1, characters_of(text), static_cast<i64>(tokens_.ids.size())};
}

void DocumentLine::read(std::string_view id, std::string_view text, Chunk& out) {
  encode(text);
  run(id, text, stages_.begin, out);
}

void DocumentLine::go_on(std::string_view id,
                         std::string_view text,
                         std::span<const i32> tokens,
                         Chunk& out) {
  tokens_.ids.assign(tokens.begin(), tokens.end());
  tokens_.lengths.clear();
  run(id, text, stages_.begin, out);
}

void DocumentLine::run(std::string_view id, std::string_view text, std::size_t stage, Chunk& out) {
  std::string changed;  // holds what `text` shows, once a stage has changed it
  for (; stage < stages_.end; ++stage) {
    StageCounts& counts = out.counts[stage];
    counts.in += amount_of(text);
    const BuildConfig::Stage& now = config_.stages[stage];
    StageResult result = now.stage->apply({id, text, static_cast<i64>(tokens_.ids.size())});
    if (!result.removed.empty()) {
      ++counts.removed;
      out.removed += removed_line(id, now.type, result.removed);
      return;
    }
    if (!result.texts.empty()) {
      ++counts.changed;
      if (result.texts.size() > 1) {
        for (std::size_t i = 0; i < result.texts.size(); ++i) {
          encode(result.texts[i]);
          counts.out += amount_of(result.texts[i]);
          run(fmt::format("{}#{}", id, i + 1), result.texts[i], stage + 1, out);
        }
        return;
      }
      changed = std::move(result.texts.front());
      text = changed;
      encode(text);
    }
    if (!result.sequences.empty()) {
      ++counts.changed;
      return cut(id, result.sequences, counts, out);
    }
    counts.out += amount_of(text);
  }
  finish(id, text, out);
}

// By the last stage: see BuildConfig::load.
void DocumentLine::cut(std::string_view id,
                       const std::vector<std::string>& sequences,
                       StageCounts& counts,
                       Chunk& out) {
  encode({});
  TextAmount amount{1, 0, 0};
  for (const std::string& text : sequences) {
    require_utf8(id, text);
    const std::size_t before = tokens_.ids.size();
    encoder_->append(text, tokens_.ids);
    const std::size_t here = tokens_.ids.size() - before;
    // What has no token is no sequence, as in Megatron-LM.
    if (here > 0) tokens_.lengths.push_back(static_cast<u32>(here));
    amount.characters += characters_of(text);
  }
  amount.tokens = static_cast<i64>(tokens_.ids.size());
  counts.out += amount;
  out.amount += amount;
  out.add(id, {}, tokens_, {});
}

void DocumentLine::finish(std::string_view id, std::string_view text, Chunk& out) {
  require_utf8(id, text);
  out.amount += amount_of(text);
  if (stages_.next == nullptr) {
    out.add(id, {}, tokens_, {});
    return;
  }
  const TextAmount amount = amount_of(text);
  out.counts[stages_.end].in += amount;
  stages_.next->sketch(text, sketch_);
  out.add(id, text, tokens_, sketch_);
}

}  // namespace tessera
