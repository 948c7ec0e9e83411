#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/schema.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A document of a corpus on its way into a token file (`tessera data build`).
struct Document {
  std::string_view id;    ///< as its file names it, else its file and line: "a.jsonl:118"
  std::string_view text;  ///< UTF-8, unless DocumentStage::mends_text()
  i64 tokens = 0;         ///< of the text, by the build's tokenizer
};

/// What a stage makes of a document. As it is made: the document stays as it is.
struct StageResult {
  std::string removed = {};             ///< not empty: the document goes, for this reason
  std::vector<std::string> texts = {};  ///< else, not empty: the documents that stand in its place
  /// Else, not empty: the document becomes a document of these sequences, each encoded for itself.
  /// Only where DocumentStage::makes_sequences().
  std::vector<std::string> sequences = {};
};

/// All documents that reach a stage, by their number in the order of the corpus. Thread-safe.
class TESSERA_API DocumentSet {
 public:
  virtual ~DocumentSet();
  virtual i64 size() const = 0;
  /// What DocumentComparison::sketch() wrote of it.
  virtual std::span<const std::byte> sketch(i64 number) const = 0;
  /// Reads it from the disk.
  virtual std::string text(i64 number) const = 0;
};

/// A document that goes because of another one.
struct DocumentRemoval {
  i64 number = 0;
  i64 twin = 0;           ///< the number of the other
  double similarity = 0;  ///< of the two, 0 to 1
};

/// Decides about all documents of a corpus together. Memory is for sketches; texts stay on the
/// disk.
class TESSERA_API DocumentComparison {
 public:
  virtual ~DocumentComparison();
  /// Bytes that sketch() writes: a multiple of 8, at most 1,024.
  virtual i64 sketch_bytes() const = 0;
  /// What is kept in memory of a document: a pure function of its text. Thread-safe.
  virtual void sketch(std::string_view text, std::span<std::byte> out) const = 0;
  /// The documents that go, each once. The same for any number of threads; loops are parallel_for.
  virtual std::vector<DocumentRemoval> decide(const DocumentSet& documents) const = 0;
};

struct DocumentStageArguments {
  /// Calls `use` with the text of each document of a file: JSONL or text, plain, .gz or .zst, as a
  /// build's input. Throws Error naming the file and the line. Only valid in the constructor.
  std::function<void(const std::string& file, const std::function<void(std::string_view)>& use)>
      read_documents;
};

/// Changes or removes documents of a corpus. Plugin kind "document_stage"; a build has a list of
/// them. A stage looks at one document at a time, or compares all: then comparison() is not empty.
///
///     class Short final : public DocumentStage {
///      public:
///       struct Config {
///         i64 tokens = 128;
///         static void describe(Schema<Config>& s) {
///           s.field("tokens", &Config::tokens, "documents of fewer are removed")
///               .at_least(1).at_most(1'000'000);
///         }
///       };
///       Short(const Config& config, DocumentStageArguments&) : least_(config.tokens) {}
///
///      private:
///       StageResult do_apply(const Document& document) const override {
///         if (document.tokens >= least_) return {};
///         return {.removed = fmt::format("{} tokens", document.tokens)};
///       }
///       i64 least_;
///     };
class TESSERA_API DocumentStage : public Identified {
 public:
  static constexpr std::string_view kKind = "document_stage";
  using Arguments = DocumentStageArguments;

  ~DocumentStage() override;
  /// A pure function of the document and the stage's keys. Thread-safe.
  StageResult apply(const Document& document) const;
  /// nullptr: there is none, and apply() decides alone.
  std::unique_ptr<DocumentComparison> comparison() const;
  /// Can apply() take texts that are no UTF-8, and does it return none? Where the first stage can,
  /// a build hands it such texts, else they are errors.
  bool mends_text() const;
  /// Does apply() cut documents into sequences? Then it is the last stage: others take a document
  /// for one text.
  bool makes_sequences() const;
  /// Identifies what decides beside the keys: a hash of the files that they name. A build that was
  /// interrupted goes on only where it is the same.
  std::string fingerprint() const;

 private:
  virtual StageResult do_apply(const Document& /*document*/) const { return {}; }
  virtual std::unique_ptr<DocumentComparison> do_comparison() const { return nullptr; }
  virtual bool do_mends_text() const { return false; }
  virtual bool do_makes_sequences() const { return false; }
  virtual std::string do_fingerprint() const { return {}; }
};

}  // namespace tessera
