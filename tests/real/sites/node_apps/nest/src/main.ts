import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { Body, Controller, Get, Header, Injectable, Module, NotFoundException, Param, Post, Query, Redirect, Req, Sse } from '@nestjs/common';
import type { MessageEvent } from '@nestjs/common';
import { interval, map, take } from 'rxjs';
import type { Observable } from 'rxjs';

@Injectable()
class Notes {
    private readonly all: string[] = [];

    add(text: string): number {
        return this.all.push(text);
    }
}

@Controller()
class Site {
    constructor(private readonly notes: Notes) {}

    @Get()
    home(): string {
        return '<h1>NestJS is up, ümlaut</h1>';
    }

    @Get('items/:id')
    item(@Param('id') id: string, @Query() query: object, @Req() request: { ip: string; protocol: string }): object {
        if (id === 'none') {
            throw new NotFoundException(`no item ${id}`);
        }
        return { id, query, ip: request.ip, protocol: request.protocol };
    }

    @Post('notes')
    @Header('Set-Cookie', 'seen=1')
    add(@Body() note: { text: string }): object {
        return { count: this.notes.add(note.text), length: note.text.length };
    }

    @Get('old')
    @Redirect('/items/1')
    old(): void {}

    @Get('fails')
    fails(): never {
        throw new Error('told to fail');
    }

    @Sse('events')
    events(): Observable<MessageEvent> {
        return interval(10).pipe(take(3), map((number) => ({ data: { number } })));
    }
}

@Module({ controllers: [Site], providers: [Notes] })
class App {}

// As `nest new` has it.
async function bootstrap(): Promise<void> {
    const app = await NestFactory.create(App);
    app.enableShutdownHooks();
    await app.listen(process.env.PORT ?? 3000);
}
bootstrap();
