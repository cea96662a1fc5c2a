import { notes } from '../notes';

export default defineEventHandler(() => ({ count: notes.length }));
