#include "kernel/data/build_steps.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

#include "kernel/data/corpus_reader.hpp"
#include "kernel/data/document_line.hpp"
#include "kernel/data/in_threads.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/io/token_file.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera {
namespace {

u64 hash_of(std::initializer_list<u64> numbers) {
  return hash64(std::as_bytes(std::span(numbers.begin(), numbers.size())));
}

// Chunks as threads finish them.
class ChunkKeeper {
 public:
  ChunkKeeper(const BuildConfig& config, const StepStages& stages, const BuildFolder& folder)
      : config_(config),
        stages_(stages),
        row_{ChunkSet(folder.path(), fmt::format("chunk-{}", stages.number)), 0, {}, {}} {}

  // Makes the chunk, unless its file is there already.
  template <class Make>
  void keep(i64 number, u64 source, Make&& make) {
    const std::filesystem::path file = row_.set.file(number);
    auto loaded = Chunk::load(file, source);
    if (!loaded) {
      const bool wide = token_type_size(token_type_for(config_.tokenizer->vocabulary())) > 2;
      Chunk chunk(wide);
      chunk.counts.resize(config_.stages.size());
      make(chunk);
      const u64 content = chunk.save(file, source);
      loaded.emplace(Chunk::Loaded{std::move(chunk), content});
    }
    const Chunk& chunk = loaded->chunk;
    const auto sketches = chunk.sketches();
    Facts facts{chunk.documents(),
                loaded->content,
                chunk.counts,
                chunk.amount,
                {sketches.begin(), sketches.end()}};
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(number);
    if (facts_.size() <= index) facts_.resize(index + 1);
    facts_[index] = std::move(facts);
  }

  ChunkRow take() {
    row_.counts.resize(config_.stages.size());
    for (Facts& facts : facts_) {
      row_.set.append(facts.documents);
      if (stages_.next != nullptr) {
        row_.set.append_sketches(facts.sketches, stages_.next->sketch_bytes());
        facts.sketches = {};
      }
      row_.content = hash_of({row_.content, facts.content});
      for (std::size_t i = 0; i < facts.counts.size(); ++i) row_.counts[i] += facts.counts[i];
      row_.amount += facts.amount;
    }
    return std::move(row_);
  }

 private:
  struct Facts {
    i64 documents = 0;
    u64 content = 0;
    std::vector<StageCounts> counts;
    TextAmount amount;
    std::vector<std::byte> sketches;
  };
  const BuildConfig& config_;
  const StepStages& stages_;
  std::mutex mutex_;
  std::vector<Facts> facts_;
  ChunkRow row_;
};

constexpr u64 kDecisionMagic = 0x3153454443535354;  // "TSSCDES1"
struct DecisionHeader {
  u64 magic = kDecisionMagic, source = 0, content = 0;
};

std::filesystem::path decision_file(const BuildFolder& folder, i64 step) {
  return folder.path() / fmt::format("decision-{}", step);
}

u64 content_of(const std::vector<DocumentRemoval>& removals) {
  return hash64(std::as_bytes(std::span(removals)));
}

std::optional<Decision> load_decision(const std::filesystem::path& file, u64 source) {
  const InputFile as_input{file.string(), file.string()};
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  DecisionHeader header;
  if (error || size < sizeof header || (size - sizeof header) % sizeof(DocumentRemoval) != 0) {
    return std::nullopt;
  }
  const auto from = ByteSource::open(as_input);
  Decision out;
  out.removals.resize((size - sizeof header) / sizeof(DocumentRemoval));
  const auto read = [&](auto list) {
    const auto bytes = std::as_writable_bytes(list);
    return from->read({reinterpret_cast<char*>(bytes.data()), bytes.size()}) == bytes.size();
  };
  if (!read(std::span(&header, 1)) || !read(std::span(out.removals))) return std::nullopt;
  out.content = content_of(out.removals);
  const bool good =
      header.magic == kDecisionMagic && header.source == source && header.content == out.content;
  return good ? std::optional(std::move(out)) : std::nullopt;
}

void save_decision(const std::filesystem::path& file, u64 source, const Decision& decision) {
  const DecisionHeader header{kDecisionMagic, source, decision.content};
  const std::filesystem::path partial = file.string() + ".partial";
  {
    OutputFile out(partial);
    out.write(std::as_bytes(std::span(&header, 1)));
    out.write(std::as_bytes(std::span(decision.removals)));
  }
  std::filesystem::rename(partial, file);
}

}  // namespace

BuildFolder::BuildFolder(const std::filesystem::path& folder) : path_(folder) {
  std::filesystem::create_directories(path_);
  lock_ = open_output(path_ / "lock", O_RDWR);
  require(bool(lock_), "cannot write to {}: {}", written_path(path_), SystemError());
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    require(errno != EWOULDBLOCK,
            "another build writes to {}: wait for its end, or give another output",
            written_path(path_));
    fail("cannot lock {}: {}", written_path(path_), SystemError());
  }
}

void BuildFolder::remove() { std::filesystem::remove_all(path_); }

ChunkRow read_input(const BuildConfig& config,
                    const std::vector<InputFile>& files,
                    const StepStages& stages,
                    const BuildFolder& folder,
                    int threads) {
  const bool mends = !config.stages.empty() && config.stages.front().stage->mends_text();
  BlockReader reader(files);
  ChunkKeeper keeper(config, stages, folder);
  in_threads<InputBlock>(
      threads,
      [&](InputBlock& block) { return reader.next(block); },
      [&] {
        return [&,
                documents = BlockDocuments({config.keys.text_field, config.keys.id_field}, mends),
                line = DocumentLine(config, {stages.begin, stages.end, stages.next.get()})](
                   i64 number, const InputBlock& block) mutable {
          const u64 source = hash_of({config.identity,
                                      hash64(block.bytes()),
                                      hash64(block.file->shown),
                                      static_cast<u64>(block.file->content),
                                      static_cast<u64>(block.first_line)});
          keeper.keep(number, source, [&](Chunk& chunk) {
            documents.each(block, [&](const ReadDocument& document) {
              line.read(document.id, document.text, chunk);
            });
          });
        };
      });
  return keeper.take();
}

Decision decide(const ChunkRow& row,
                const StepStages& stages,
                const BuildFolder& folder,
                int threads) {
  const std::filesystem::path file = decision_file(folder, stages.number);
  if (auto made = load_decision(file, row.content)) return std::move(*made);
  Decision decision;
  {
    const ParallelThreads within(threads);
    decision.removals = stages.next->decide(row.set);
  }
  std::ranges::sort(decision.removals, {}, &DocumentRemoval::number);
  for (std::size_t i = 0; i < decision.removals.size(); ++i) {
    const DocumentRemoval& one = decision.removals[i];
    const auto is_there = [&](i64 number) { return number >= 0 && number < row.set.size(); };
    require(is_there(one.number) && is_there(one.twin) && one.number != one.twin &&
                (i == 0 || decision.removals[i - 1].number != one.number),
            "a stage removes document {} because of {}, of {} documents: not there, or twice",
            one.number,
            one.twin,
            row.set.size());
  }
  decision.content = content_of(decision.removals);
  save_decision(file, row.content, decision);
  return decision;
}

ChunkRow go_on(const BuildConfig& config,
               const ChunkRow& from,
               const Decision& decision,
               const StepStages& stages,
               const BuildFolder& folder,
               int threads) {
  const std::size_t decided = stages.begin - 1;
  ChunkKeeper keeper(config, stages, folder);
  i64 next = 0;
  in_threads<i64>(
      threads,
      [&](i64& chunk) { return (chunk = next++) < from.set.chunks(); },
      [&] {
        return [&, line = DocumentLine(config, {stages.begin, stages.end, stages.next.get()})](
                   i64 number, i64) mutable {
          const auto before = Chunk::read(from.set.file(number));
          const u64 source =
              hash_of({config.identity, before.content, from.content, decision.content});
          keeper.keep(number, source, [&](Chunk& chunk) {
            StageCounts& counts = chunk.counts[decided];
            const i64 first = from.set.first_document(number);
            auto removal =
                std::ranges::lower_bound(decision.removals, first, {}, &DocumentRemoval::number);
            DocumentTokens tokens;
            for (i64 i = 0; i < before.chunk.documents(); ++i) {
              const std::string_view id = before.chunk.id(i), text = before.chunk.text(i);
              if (removal != decision.removals.end() && removal->number == first + i) {
                ++counts.removed;
                chunk.removed += removed_line(id,
                                              config.stages[decided].type,
                                              "like another document",
                                              from.set.id(removal->twin),
                                              removal->similarity);
                ++removal;
                continue;
              }
              before.chunk.tokens(i, tokens);
              counts.out += {1, characters_of(text), static_cast<i64>(tokens.ids.size())};
              line.go_on(id, text, tokens.ids, chunk);
            }
          });
        };
      });
  return keeper.take();
}

}  // namespace tessera
