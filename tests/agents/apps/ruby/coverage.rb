# The file `hooks`: each process loads it before the application.
require 'simplecov'
SimpleCov.root __dir__
SimpleCov.coverage_dir 'out'
SimpleCov.command_name "process #{Process.pid}"
SimpleCov.formatter SimpleCov::Formatter::SimpleFormatter
SimpleCov.start
