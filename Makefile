# Each target sets up .venv by itself: the stamp below is older than what it depends on only when pins change.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.onnxport-installed
# One thread per test worker: models in the tests are small, and workers already use every core.
WORKERS ?= auto
BENCH ?=

.PHONY: help setup demo test lint format bench latency kernels coefficients sweep packed model-types operators fuzz test-torchao test-oldest test-versions consumers docs pages comparisons screenshots clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -e '.[test,dev,script]' -c constraints.txt
	touch $@

setup: $(STAMP) ## create .venv with everything pinned

demo: $(STAMP) ## export the MLP of the guide, run it at another batch size, leave mlp.onnx behind
	$(BIN)/python examples/mlp.py

test: $(STAMP) ## run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

lint: $(STAMP) ## style, formatting, types and the imports allowed between stages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## compare with torch.onnx and write benchmarks/RESULTS.md (BENCH="--models bert-base --quick" for less)
	$(BIN)/python -m benchmarks.run $(BENCH)

LATENCY ?= --write docs/performance.md

latency: $(STAMP) ## time our files and torch.onnx's in onnxruntime and write docs/performance.md (LATENCY="--models bert-base" for less)
	$(BIN)/python -m benchmarks.latency $(LATENCY)

kernels: $(STAMP) ## ask onnxruntime anew which operators it lacks in which element types
	$(BIN)/python tools/runtime_gaps.py

coefficients: $(STAMP) ## fit the coefficients of special functions anew
	$(BIN)/python tools/coefficients.py

SWEEP := OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/sweep/opdb.py
SAMPLES ?= 0

sweep: $(STAMP) ## export torch's samples of every operator, in all dtypes, and all cases at all opsets (SAMPLES=4 for less)
	mkdir -p build/sweep
	for dtype in float32 int64 bool float16 bfloat16 complex64; do \
		$(SWEEP) --dtype $$dtype --samples $(SAMPLES) --out build/sweep/$$dtype.json || exit 1; done
	$(SWEEP) --dynamic --samples $(SAMPLES) --out build/sweep/dynamic.json
	$(SWEEP) --errors --out build/sweep/errors.json
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/ops/matrix.py \
		7 9 11 13 15 17 18 20 21 23 26 --out build/sweep/opsets.json

MODEL_TYPES ?= --write docs/transformers.md

model-types: $(STAMP) ## export small models of transformers' types and write docs/transformers.md (MODEL_TYPES="--tasks ctc" for less)
	OMP_NUM_THREADS=1 PYTHONPATH=tests/pretrained $(BIN)/python tests/pretrained/model_types.py $(MODEL_TYPES)

PACKED ?= --reference

packed: $(STAMP) ## packed sequences in every way at every opset, torch.onnx beside ours (PACKED="--rows gru" for less)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/packed/packed_runs.py $(PACKED)

FUZZ ?= --seed 1000 --programs 3000

fuzz: $(STAMP) ## random modules, eager against onnxruntime, for hours (FUZZ="--seed 7 --programs 50" for less)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

operators: $(STAMP) ## write docs/operators.md from the registry and the last sweep
	$(BIN)/python tools/operators.py build/sweep docs/operators.md

test-torchao: $(STAMP) ## run the tests of quantized models with torchao, bitsandbytes, HQQ and quanto, in an environment beside .venv that sees its packages
	test -x .venv-torchao/bin/python || $(BIN)/python -m venv --without-pip .venv-torchao
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > $$(ls -d .venv-torchao/lib/python*/site-packages)/main.pth
	$(BIN)/pip install -q --no-deps --upgrade --target $$(ls -d .venv-torchao/lib/python*/site-packages) torchao==0.18.0 \
		bitsandbytes==0.50.2 hqq==0.2.8.post1 optimum-quanto==0.2.7 accelerate==1.15.0 ninja==1.13.2 psutil==7.2.2 termcolor==3.3.0
	OMP_NUM_THREADS=1 .venv-torchao/bin/python -m pytest -n $(WORKERS) tests/quantized

.PHONY: test-genai decoding language-models

test-genai: $(STAMP) ## run exported folders in onnxruntime-genai, in an environment beside .venv that sees its packages
	test -x .venv-genai/bin/python || $(BIN)/python -m venv --without-pip .venv-genai
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > $$(ls -d .venv-genai/lib/python*/site-packages)/main.pth
	$(BIN)/pip install -q --no-deps --upgrade --target $$(ls -d .venv-genai/lib/python*/site-packages) onnxruntime-genai==0.18.0
	OMP_NUM_THREADS=1 .venv-genai/bin/python -m pytest -n $(WORKERS) tests/pretrained/test_genai.py

DECODING := build/decoding/134M
decoding: $(STAMP) ## time a token of a Llama-style decoder of 134 million parameters, of our files, torch.onnx's and onnxruntime-genai's builder's
	$(BIN)/python -m benchmarks.decoding $(DECODING) --prepare
	.venv-genai/bin/python -m onnxruntime_genai.models.builder -i $(DECODING)/checkpoint -o $(DECODING)/builder -p fp32 -e cpu -c build/cache
	$(BIN)/python -m benchmarks.decoding $(DECODING)

language-models: $(STAMP) ## export a small model of every decoder of transformers and write docs/language_models.md
	OMP_NUM_THREADS=1 PYTHONPATH=tests/pretrained $(BIN)/python tools/language_models.py --out build/language_models.json
	PYTHONPATH=tests/pretrained $(BIN)/python tools/language_models.py --out build/language_models.json --write docs/language_models.md

INT4_DECODING ?= --write docs/quantized_models.md

.PHONY: int4-decoding large-int4 quantized-cases

int4-decoding: $(STAMP) ## decode with int4 weights beside the file of onnxruntime-genai's builder (make test-genai makes the environment)
	PYTHONPATH=. .venv-genai/bin/python -m benchmarks.quantized.decoding $(INT4_DECODING)

large-int4: $(STAMP) ## quantize a checkpoint of eight billion parameters while it is exported; needs 25 GB of disk
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.quantized.large_checkpoint

quantized-cases: $(STAMP) ## quantized models through both exporters into docs/quantized_cases.md (make test-torchao makes the environment)
	OMP_NUM_THREADS=1 PYTHONPATH=.:tests:tests/quantized .venv-torchao/bin/python tests/quantized/quantized_runs.py \
		--write docs/quantized_cases.md

test-oldest: ## run the core selection with the oldest versions that are declared
	$(PYTHON) tools/versions.py 2.9.0+oldest --env .venv-oldest --keep

TORCH ?=

test-versions: ## run a core selection with each version of torch and write docs/compatibility.md (TORCH="2.9.0 2.15.0" for less, TORCH="2.14.1 --python python3.13" for another Python)
	$(PYTHON) tools/versions.py $(TORCH)

CONSUMERS ?= --write docs/consumers.md
READERS := .venv-consumers/.installed
WEB := build/web/node_modules/onnxruntime-web

$(READERS): $(STAMP)
	test -x .venv-consumers/bin/python || $(BIN)/python -m venv --system-site-packages .venv-consumers
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > "$$(.venv-consumers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/onnxport.pth"
	.venv-consumers/bin/pip install -q opencv-python-headless tract MNN ncnn pnnx openvino onnxsim onnxslim
	touch $@

$(WEB):
	mkdir -p build/web
	npm install --no-audit --no-fund --prefix build/web onnxruntime-web

consumers: $(READERS) $(WEB) ## give small models to other readers of ONNX and write docs/consumers.md (CONSUMERS="--models mlp" for less)
	PYTHONPATH=src OMP_NUM_THREADS=1 .venv-consumers/bin/python -m benchmarks.consumers $(CONSUMERS)

SITE := .venv-docs/.installed

$(SITE): pyproject.toml constraints.txt
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install -q -c constraints.txt $$($(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'])")
	touch $@

docs: $(SITE) ## build the site into build/site, links checked, without network
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	@echo "build/site/index.html"

pages: $(STAMP) ## run the code on all pages and write what it prints into them
	OMP_NUM_THREADS=1 UPDATE_PAGES=1 $(BIN)/python -m pytest tests/project/test_pages.py

comparisons: $(STAMP) ## write docs/comparisons.md from the measurements
	$(BIN)/python tools/comparisons.py

screenshots: $(STAMP) ## install Chromium where there is none, and take pictures of reports in it, into build/screenshots
	command -v chromium chromium-browser google-chrome > /dev/null || apt-get install -y chromium
	OMP_NUM_THREADS=1 SCREENSHOTS=build/screenshots $(BIN)/python -m pytest tests/report/test_browser.py

clean: ## remove what the targets leave behind, but not .venv
	rm -rf mlp.onnx mlp.onnx.data build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
